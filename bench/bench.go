package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// An Op does one unit of work and checks the response. It is called from many goroutines
// concurrently.
type Op func(ctx context.Context) error

// A Session is a client connected to a server, or only the server. A nil field is work that it does
// not support.
type Session struct {
	// Call sends subtract {"minuend":42,"subtrahend":23}, typed on both sides.
	Call  Op
	Batch Op                                               // 100 of these calls in one array
	Echo  func(ctx context.Context, document []byte) error // params and result are raw JSON
	// Settle waits for the work that calls leave behind, such as writing a recording. It is part of
	// the cost of the calls: otherwise the figures depend on when that work happens to be done.
	Settle func() error
	Close  func()
}

func (s *Session) settle() error {
	if s.Settle == nil {
		return nil
	}
	return s.Settle()
}

// A Transport connects client and server.
type Transport string

const (
	Memory Transport = "in memory"
	Pipe   Transport = "net.Pipe"
	Unix   Transport = "unix"
	// UnixAlone is a client that only sends requests, one call at a time.
	UnixAlone  Transport = "unix, caller reads"
	TCP        Transport = "tcp"
	HTTPServer Transport = "HTTP server" // the client is a raw socket
	HTTP       Transport = "HTTP"
	WebSocket  Transport = "WebSocket"
	Feed       Transport = "server fed" // requests come from memory, responses are discarded
	Dispatch   Transport = "dispatch"   // bytes in, bytes out
)

// A Role is the purpose for which an entry is measured.
type Role string

const (
	Limit Role = "limit" // the transport without JSON-RPC
	Ours  Role = "parley"
	Peer  Role = "peer"
)

// An Entry is a library, or one way to use it.
type Entry struct {
	Name string
	Role Role
	Open map[Transport]func() (*Session, error)
}

// A Work is the measured operation.
type Work struct {
	Name string // "" for the small call
	Per  int    // calls in one Op
	op   func(*Session) Op
}

var (
	smallCall = Work{"", 1, func(s *Session) Op { return s.Call }}
	batchWork = Work{"batch of 100", 1, func(s *Session) Op { return s.Batch }}
	feedWork  = Work{"", feedCalls, func(s *Session) Op { return s.Call }}
)

// echoWork returns the echo of a document.
func echoWork(size bytesOf) Work {
	doc := document(int(size))
	return Work{"echo " + size.String(), 1, func(s *Session) Op {
		if s.Echo == nil {
			return nil
		}
		return func(ctx context.Context) error { return s.Echo(ctx, doc) }
	}}
}

// bytesOf is a size.
type bytesOf int

func (n bytesOf) String() string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d MB", n/1_000_000)
}

// A Scenario is one table of the report.
type Scenario struct {
	Transport Transport
	Work      Work
	Callers   int  // goroutines that share the connection, or have one each on HTTP
	Conns     int  // connections; 0 means one, shared by all callers
	Growth    bool // shows how the cost grows: only with -full
}

// Name identifies the scenario.
func (s Scenario) Name() string {
	name := string(s.Transport)
	switch {
	case s.Conns > 0:
		name += ", " + plural(s.Conns, "connection")
	case s.Work.Name != "":
		name += ", " + s.Work.Name
	case s.Transport != Feed && s.Transport != Dispatch && s.Transport != UnixAlone:
		name += ", " + plural(s.Callers, "caller")
	}
	if s.Growth {
		name = "growth: " + name
	}
	return name
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// A Sample is the cost of one call in one round.
type Sample struct {
	Wall   float64 `json:"ns"`
	CPU    float64 `json:"cpu_ns"` // of the whole process: client and server
	Bytes  float64 `json:"bytes"`
	Allocs float64 `json:"allocs"`
}

// A Plan specifies how long to measure.
type Plan struct {
	Rounds   int
	Time     time.Duration // of one entry in one round
	Profiles string        // folder for profiles of our entries; "" for none
}

// A contestant is an entry while its scenario runs.
type contestant struct {
	Entry
	sessions []*Session
	op       []Op
	n        int // calls in one round
	samples  []Sample
	err      error
}

// Run measures all entries that support the scenario.
func (s Scenario) Run(entries []Entry, plan Plan) []Result {
	var all []*contestant
	for _, e := range entries {
		if s.Growth && !inGrowth[e.Name] {
			continue
		}
		if c := s.enter(e); c != nil {
			all = append(all, c)
		}
	}
	defer func() {
		for _, c := range all {
			c.close()
		}
	}()
	for _, c := range all {
		c.calibrate(s, plan.Time)
	}
	for round := range plan.Rounds {
		for i := range all {
			c := all[(i+round)%len(all)]
			if c.err == nil {
				c.round(s, plan)
			}
		}
	}
	results := make([]Result, len(all))
	for i, c := range all {
		results[i] = Result{Name: c.Name, Role: c.Role, Rounds: c.samples, Error: errText(c.err)}
	}
	judge(results)
	return results
}

// enter opens the sessions of e, or returns nil if it does not support the scenario.
func (s Scenario) enter(e Entry) *contestant {
	open := e.Open[s.Transport]
	if open == nil {
		return nil
	}
	c := &contestant{Entry: e}
	for range max(1, s.Conns) {
		session, err := open()
		if err != nil {
			c.err = err
			return c
		}
		c.sessions = append(c.sessions, session)
		op := s.Work.op(session)
		if op == nil {
			c.close()
			return nil
		}
		c.op = append(c.op, op)
	}
	return c
}

func (c *contestant) close() {
	for _, s := range c.sessions {
		s.Close()
	}
	c.sessions = nil
}

// calibrate warms up, and determines how many calls fill a round. It uses the fastest of three
// measurements: one that was delayed by something else would leave a round with a handful of calls.
func (c *contestant) calibrate(s Scenario, d time.Duration) {
	c.n = s.Callers * s.Work.Per
	for c.err == nil {
		took := time.Duration(math.MaxInt64)
		for tries := 0; tries < 3 && took >= d/2; tries++ {
			took = min(took, time.Duration(c.measure(s).Wall*float64(c.n)))
		}
		if took >= d/2 {
			return
		}
		grow := min(100, float64(d)/float64(max(took, 1)))
		c.n = int(float64(c.n)*grow) + 1
	}
}

func (c *contestant) round(s Scenario, plan Plan) {
	runtime.GC()
	if plan.Profiles != "" && c.Role == Ours && len(c.samples) == 0 {
		c.profile(s, plan.Profiles)
	}
	if sample := c.measure(s); c.err == nil {
		c.samples = append(c.samples, sample)
	}
}

// measure makes at least c.n calls, shared by all callers, and returns the cost of one.
func (c *contestant) measure(s Scenario) Sample {
	each := (c.n + s.Callers*s.Work.Per - 1) / (s.Callers * s.Work.Per)
	watchdog := time.AfterFunc(2*time.Minute, func() { panic("bench: " + s.Name() + ", " + c.Name + " hangs") })
	defer watchdog.Stop()

	var ready, done sync.WaitGroup
	errs := make([]error, s.Callers)
	begin := make(chan struct{})
	for i := range s.Callers {
		ready.Add(1)
		op := c.op[i%len(c.op)]
		done.Go(func() {
			ready.Done()
			<-begin
			ctx := context.Background()
			for range each {
				if err := op(ctx); err != nil {
					errs[i] = err
					return
				}
			}
		})
	}
	ready.Wait()

	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, start := processTime(), time.Now()
	close(begin)
	done.Wait()
	for _, session := range c.sessions {
		errs = append(errs, session.settle())
	}
	wall := time.Since(start)
	cpu = processTime() - cpu
	runtime.ReadMemStats(&after)

	for _, err := range errs {
		if err != nil {
			c.err = err
		}
	}
	calls := float64(each * s.Callers * s.Work.Per)
	return Sample{
		Wall:   float64(wall) / calls,
		CPU:    float64(cpu) / calls,
		Bytes:  float64(after.TotalAlloc-before.TotalAlloc) / calls,
		Allocs: float64(after.Mallocs-before.Mallocs) / calls,
	}
}

// processTime returns the user and kernel time of all threads of this process.
func processTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // the arguments are constants
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// profile writes a CPU profile of one round, and the allocations of another: the difference between
// .mem and .base.
func (c *contestant) profile(s Scenario, dir string) {
	name := strings.NewReplacer(" ", "-", ",", "", ":", "", "/", "-").Replace(s.Name() + " " + c.Name)
	create := func(kind string) *os.File {
		f, err := os.Create(filepath.Join(dir, name+kind))
		must(err)
		return f
	}
	f := create(".cpu")
	must(pprof.StartCPUProfile(f))
	c.measure(s)
	pprof.StopCPUProfile()
	must(f.Close())

	defer func(rate int) { runtime.MemProfileRate = rate }(runtime.MemProfileRate)
	runtime.MemProfileRate = 512
	for _, kind := range []string{".base", ".mem"} {
		if kind == ".mem" {
			c.measure(s)
		}
		runtime.GC() // the profile covers the time up to the last collection
		f := create(kind)
		must(pprof.Lookup("allocs").WriteTo(f, 0))
		must(f.Close())
	}
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// median returns the median of the values, or 0 if there are no values.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	values = slices.Sorted(slices.Values(values))
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}
