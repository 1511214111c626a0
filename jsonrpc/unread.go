package jsonrpc

import (
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley/internal/x/budget"
)

// Bounds of the responses of a Conn that its peer has not read.
const (
	unreadMessages = 64      // that may wait before reading of requests stops
	unreadBytes    = 1 << 20 // the same in bytes

	scarceMessages = 8        // the same while the process holds too many unread responses
	scarceBytes    = 96 << 10 //

	// While calls of our own are open, reading continues for their responses, and requests are
	// rejected from these bounds on.
	rejectBytes       = 8 << 20
	rejectScarceBytes = 512 << 10
	pauseScarceBytes  = 512 << 10
	// without progress, above unreadMessages or unreadBytes
	rejectTime = 2 * time.Second
	// without progress, above unreadBytes or pauseScarceBytes: until then reading pauses
	pauseTime = 100 * time.Millisecond
	// Above unreadBytes reading pauses only if it would increase what is held: if so much of the
	// responses are of the reader itself, or so much of the queue waits to start (as a cost).
	// Two sides that call each other would otherwise both pause with full pipes.
	pauseOwnBytes   = 512 << 10
	pauseQueueBytes = 8 << 20

	plentyUnread = 8 << 20 // bytes of all connections: above it the lower bounds apply
	// above it a connection starts one request after the other, at most this often while some run
	mostUnread = 32 << 20
	startStep  = 50 * time.Millisecond
	// with what handlers will probably make: above it the same holds for methods with long
	// responses, beyond the part of a connection that its peer has earned by reading
	mostExpected = 16 << 20
	// above it, of all connections, with half of what is expected, those whose peers have read little
	// start such requests at the rate of budget.LongResponses
	mostHeld    = 20 << 20
	mostEarned  = 128 << 20 // above it, of all connections, no connection has such a part
	longStep    = 250 * time.Millisecond
	leastEarned = 1 << 20 // bytes that each connection may expect
	earnedOf    = 8       // one byte more for each of these that the peer has taken
	messageCost = 1 << 10 // the minimum cost of a message besides its bytes
	// the maximum difference between a connection's bytes and its count in budget.Unread
	countStep = 32 << 10
)

// unreadIsScarce reports whether all connections together hold too many unread responses. Each
// connection is counted to within countStep.
func unreadIsScarce() bool { return budget.Unread.Load() > plentyUnread }

// unreadIsFull reports whether they hold so many that the process may run out of memory.
func unreadIsFull() bool { return budget.Unread.Load() > mostUnread }

// unread counts the responses in an outbox: those that are queued, those that are being written,
// and those whose handlers wait for room. The outbox's lock guards it, except for level.
type unread struct {
	next, flying, held backlog
	// the cost of rejections, also of those that are not queued yet
	rejections budget.Account
	counted    int64 // this connection's part of budget.Unread
	over       bool  // the same value as level
	progress   time.Time
	written    uint64 // the bytes that the transport had written at the last check
	forgotten  bool
	// wakes the reader; with capacity 1; nil if the reader never waited
	wake chan struct{}

	taken atomic.Int64 // bytes that the peer has taken so far, in whole bursts

	level atomic.Bool // reading of requests must stop; it can be loaded without the lock
	heavy atomic.Bool // the same for running those that were read: the responses are long
	light func()      // called when heavy has become false
}

// A backlog is a number of messages, their bytes, what the rejections among them cost, and the
// bytes of those that the reader made: responses of quick methods, and errors.
type backlog struct {
	messages, bytes int
	rejected        int64
	fromReader      int
}

// queue counts responses that are queued.
func (u *unread) queue(messages, bytes int) {
	u.next.messages += messages
	u.next.bytes += bytes
	u.note()
}

// queueOwn is queue for responses of the reader. rejected is what the rejections among them cost.
func (u *unread) queueOwn(messages, bytes int, rejected int64) {
	u.next.rejected += rejected
	u.next.fromReader += bytes
	u.queue(messages, bytes)
}

// hold counts a response whose handler waits for room. Negative numbers subtract.
func (u *unread) hold(messages, bytes int) {
	u.held.messages += messages
	u.held.bytes += bytes
	u.note()
}

// write counts responses that are being written and were not queued.
func (u *unread) write(messages, bytes int) {
	u.flying = backlog{messages: messages, bytes: bytes}
	u.note()
}

// startWrite records that all queued responses are being written.
func (u *unread) startWrite() { u.flying, u.next = u.next, backlog{} }

// endWrite records that they have been written.
func (u *unread) endWrite() {
	if u.flying.messages == 0 {
		return
	}
	u.rejections.Give(u.flying.rejected)
	u.flying = backlog{}
	if u.over {
		u.progress = time.Now()
	}
	u.note()
}

func (u *unread) messages() int { return u.next.messages + u.flying.messages + u.held.messages }
func (u *unread) bytes() int    { return u.next.bytes + u.flying.bytes + u.held.bytes }

// note decides whether reading of requests continues. It is called after each change of a number.
func (u *unread) note() {
	if u.forgotten {
		return
	}
	messages, bytes := u.messages(), u.bytes()
	cost := int64(bytes + messages*messageCost)
	if d := cost - u.counted; d >= countStep || d <= -countStep || cost == 0 && d != 0 {
		budget.Unread.Add(d)
		u.counted = cost
	}
	heavy := bytes >= unreadBytes || bytes >= scarceBytes && unreadIsScarce()
	if heavy != u.heavy.Load() {
		u.weigh(heavy)
	}
	over := messages >= scarceMessages || bytes >= scarceBytes
	if over && messages < unreadMessages && bytes < unreadBytes {
		over = unreadIsScarce()
	}
	if over == u.over {
		return
	}
	u.over = over
	u.level.Store(over)
	if over {
		u.progress = time.Now()
	} else {
		u.wakeReader()
	}
}

// weigh sets heavy.
func (u *unread) weigh(heavy bool) {
	u.heavy.Store(heavy)
	if !heavy && u.light != nil {
		u.light()
	}
}

// rejects reports whether a new message is rejected although reading had to continue. queues means
// that it is a request that would be queued and not run before the peer has read; queued is the
// cost of those that wait already. written is the number of bytes that the transport has written so
// far: a burst of many messages may take longer than rejectTime, and the peer reads it all the
// time.
func (u *unread) rejects(written uint64, queues bool, queued int) bool {
	if !u.over {
		return false
	}
	if written != u.written {
		u.written, u.progress = written, time.Now()
	}
	if time.Since(u.progress) > rejectTime {
		return true
	}
	bytes := u.bytes()
	full := bytes >= rejectBytes || bytes >= rejectScarceBytes && unreadIsScarce()
	return full && !(queues && u.heavy.Load() && queued < pauseQueueBytes)
}

// forget removes the connection from the process's count: nothing is queued from now on.
func (u *unread) forget() {
	budget.Unread.Add(-u.counted)
	u.rejections.Give(u.next.rejected + u.flying.rejected)
	u.next.rejected, u.flying.rejected = 0, 0
	u.counted, u.forgotten, u.over = 0, true, false
	u.level.Store(false)
	u.wakeReader()
	u.weigh(false)
}

// wakeReader wakes the reader.
func (u *unread) wakeReader() {
	if u.wake != nil {
		signal(u.wake)
	}
}

// signal wakes one waiter, now or when it begins to wait.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// pause returns how long reading waits although calls of our own are open. queued is the cost of
// the requests that were read and have not started. Rejections are responses too: a peer that reads
// them more slowly than it sends is read at its own pace. The pause is short because the peer may
// not read before its own messages are read.
func (u *unread) pause(queued int) time.Duration {
	bytes := u.bytes()
	switch {
	case bytes >= pauseScarceBytes && unreadIsScarce():
	case bytes < unreadBytes, u.next.fromReader+u.flying.fromReader < pauseOwnBytes && queued < pauseQueueBytes:
		return 0
	}
	return max(0, pauseTime-time.Since(u.progress))
}

// hold waits until the peer has read enough of its responses. While calls of our own are open, it
// waits only as long as the peer reads: the responses to the calls may be next.
func (c *Conn) hold() error {
	if c.held != nil {
		if err := c.release(); err != nil { // the peer may wait for it
			return err
		}
	}
	c.releaseJob()
	for {
		c.out.mu.Lock()
		u := &c.out.unread
		over, pause := u.over || c.lane.isLaden(), u.pause(c.lane.unstartedCost())
		wake := c.wakeup()
		c.out.mu.Unlock()
		switch {
		case !over || c.asker.isOpen() && pause == 0:
			return nil
		case pause == 0 || !c.asker.isOpen():
			<-wake
		default:
			awaitFor(wake, pause)
		}
	}
}

// awaitFor waits for a signal, at most d.
func awaitFor(wake <-chan struct{}, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-wake:
	case <-t.C:
	}
}

// wakeup returns the channel that the reader waits on. The outbox's lock is held.
func (c *Conn) wakeup() chan struct{} {
	u := &c.out.unread
	if u.wake == nil {
		u.wake = make(chan struct{}, 1)
		c.asker.watch(u.wake)
	}
	return u.wake
}

// releaseJob frees the job that the reader holds for the next message.
func (c *Conn) releaseJob() {
	if c.job != nil {
		c.job.free()
		c.job = nil
	}
}

// crowded reports whether a message is rejected because the peer does not read, while reading
// continues. queues is as in [unread.rejects].
func (c *Conn) crowded(queues bool) bool {
	if !c.out.unread.level.Load() {
		return false
	}
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	return c.out.unread.rejects(c.out.readByPeer(), queues, c.lane.unstartedCost())
}

// reject answers n requests, or messages that are not valid, of a peer that does not read. The
// responses of all connections count in budget.Rejections until they are written; without room for
// them the connection ends.
func (c *Conn) reject(n int, appendTo func([]byte) []byte) error {
	before := len(c.answers())
	c.answer(appendTo(c.answers()))
	cost := int64(len(c.held.Bytes) - before + n*messageCost)
	if !c.out.unread.rejections.Take(cost) {
		return ErrSlowPeer
	}
	c.rejected += cost
	return nil
}

// forgetRejections releases the rejections that are not queued, at the end of the connection.
func (c *Conn) forgetRejections() {
	c.out.unread.rejections.Give(c.rejected)
	c.rejected = 0
}

// watch makes c receive a signal when a call is opened while there is no other.
func (k *Asker) watch(c chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.opened = c
}

// isOpen reports whether calls of our own wait for a response.
func (k *Asker) isOpen() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.count > 0
}
