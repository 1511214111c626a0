package transporttest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A rule is one rule of the contract. check returns what is wrong. It does not call testing.T, so
// that the suite's own tests can test it with defects.
type rule struct {
	name  string
	needs func(*Options) bool // if nil, the rule applies to all transports
	check func(*env) error
}

// env creates and closes the ends for a rule.
type env struct {
	t        *testing.T
	o        *Options
	makePipe func(t *testing.T) (a, b jsonrpc.Transport)
	patience time.Duration // for one rule

	mu   sync.Mutex // guards open
	open []jsonrpc.Transport
}

// pipe returns two new ends, which are closed after the rule.
func (e *env) pipe() (a, b jsonrpc.Transport) {
	a, b = e.makePipe(e.t)
	e.keep(a, b)
	return a, b
}

// over returns both ends over two tapes, as [Options.Over] creates them.
func (e *env) over(client, server *Tape) (c, s jsonrpc.Transport) {
	c, s = e.o.Over(e.t, client, server)
	e.keep(c, s)
	return c, s
}

func (e *env) keep(ts ...jsonrpc.Transport) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.open = append(e.open, ts...)
}

func (e *env) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, t := range e.open {
		_ = t.Close() // the rule has ended, and its error is irrelevant
	}
}

// giveUp closes all ends until the rule returns. The rule may open more ends meanwhile.
func (e *env) giveUp(done <-chan struct{}) {
	tick := time.NewTicker(e.patience / 100)
	defer tick.Stop()
	for range 100 {
		e.close()
		select {
		case <-done:
			return
		case <-tick.C:
		}
	}
}

// check runs a rule and reports the stacks of all goroutines if it does not return.
func (e *env) check(r rule) error {
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = r.check(e)
	}()
	watch := time.NewTimer(e.patience)
	defer watch.Stop()
	select {
	case <-done:
		return err
	case <-watch.C:
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		e.giveUp(done)
		return fmt.Errorf("stuck for %v:\n%s", e.patience, stacks)
	}
}

// burst concatenates payloads.
func burst(payloads ...[]byte) jsonrpc.Burst {
	var b jsonrpc.Burst
	for _, p := range payloads {
		b.Add(p)
	}
	return b
}

// numbered returns a message with the number n.
func numbered(n int) []byte { return fmt.Appendf(nil, `{"n":%d}`, n) }

// sized returns a valid JSON text of exactly n bytes, which differs with seed.
func sized(n, seed int) []byte {
	p := bytes.Repeat([]byte{'a' + byte(seed%26)}, n)
	p[0], p[n-1] = '"', '"'
	return p
}

// same reports whether got equals sent, except for raw newlines, which a transport may have
// replaced with blanks.
func same(got, sent []byte) bool {
	blank := func(p []byte) []byte { return bytes.ReplaceAll(p, []byte("\n"), []byte(" ")) }
	return bytes.Equal(blank(got), blank(sent))
}

// expect reads one payload and compares it.
func expect(t jsonrpc.Transport, want []byte) (more bool, err error) {
	got, more, err := t.Read()
	if err != nil {
		return false, fmt.Errorf("Read = %w, want %s", err, short(want))
	}
	if !same(got, want) {
		return false, fmt.Errorf("Read = %s, want %s", short(got), short(want))
	}
	return more, nil
}

// short returns a payload in a form for error messages.
func short(p []byte) string {
	if len(p) <= 80 {
		return fmt.Sprintf("%q", p)
	}
	return fmt.Sprintf("%q… (%d bytes)", p[:60], len(p))
}

// all runs the functions concurrently and returns their errors.
func all(fs ...func() error) error {
	errs := make([]error, len(fs))
	var wg sync.WaitGroup
	for i, f := range fs {
		wg.Go(func() { errs[i] = f() })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// failure reports whether err ends a transport, and is not an unusable payload that can be skipped.
func failure(err error) bool {
	if err == nil {
		return false
	}
	f, ok := errors.AsType[*jsonrpc.FrameError](err)
	return !ok || f.Final
}

// isEOF reports whether err is exactly the peer's end of stream.
func isEOF(err error) bool { return err == io.EOF } //nolint:errorlint // the contract promises the value itself
