package page

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/performance"

	"github.com/da1ed7bb/parley/capture"
)

// Bounds of time are checked only with PARLEY_LONG, on a machine that does nothing else. They
// detect slowdowns by an order of magnitude. The goals and the measured values are in
// docs/performance.md.
const (
	floodRate   = 1_000 // messages per second
	inputBound  = 500.0 // ms from a key to the next frame, in nineteen of twenty cases
	manyRows    = 100_000
	manyBound   = 15 * time.Second
	weightBound = 350_000 // bytes of all files of the page, gzipped
	paintBound  = 5_000.0 // ms
)

// long reports whether bounds of time are checked.
func long() bool { return os.Getenv("PARLEY_LONG") != "" }

// floodTime is how long a server sends without a pause. PARLEY_FLOOD=60s sets the duration of the
// goal.
var floodTime = func() time.Duration {
	if d, err := time.ParseDuration(os.Getenv("PARLEY_FLOOD")); err == nil {
		return d
	}
	return 5 * time.Second
}()

// spent returns the processor time of the program so far, or 0 where the system does not report it.
func (u *up) spent() time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", u.pid))
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(text, []byte(") "))
	fields := bytes.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	ticks := 0
	for _, f := range fields[11:13] { // utime and stime, in hundredths of a second
		n, _ := strconv.Atoi(string(f))
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// spent returns the processor time of the page's main thread so far, if measuring is enabled.
func (p *tab) spent() time.Duration {
	p.t.Helper()
	for _, m := range call(p, performance.GetMetrics, cdp.Empty{}).Metrics {
		if m.Name == "TaskDuration" {
			return time.Duration(m.Value * float64(time.Second))
		}
	}
	return 0
}

// TestFlood checks that at a thousand messages per second no row is lost, and the page responds to
// keys.
func TestFlood(t *testing.T) {
	u := start(t)
	server := listen(t, refuse)
	u.open(t, server.address)
	p := u.page(t, desk, draftLink(server.address, `{"jsonrpc":"2.0","id":1,"method":"x"}`))
	p.see("region", "Composer")
	p.row("rpc.discover .*-32601")
	before := u.total(t)
	shown := ask[int](p, shownMessages)
	p.click("textbox", "/^Bytes/")
	ask[bool](p, `(() => {
		window.delays = [];
		window.tasks = [];
		new PerformanceObserver((l) => tasks.push(...l.getEntries().map((e) => e.duration))).observe({type: "longtask"});
		addEventListener("keydown", (e) => { requestAnimationFrame(() => setTimeout(() => delays.push(performance.now() - e.timeStamp))); }, true);
		return true;
	})()`)

	// The messages are prepared, and a ticker paces them. Keys are pressed meanwhile.
	total := int(floodTime.Seconds()) * floodRate
	stderr := make(chan struct{})
	go func() {
		defer close(stderr)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for n := 0; n < total; {
			<-tick.C
			var b bytes.Buffer
			for range floodRate / 100 {
				n++
				fmt.Fprintf(&b, `{"jsonrpc":"2.0","method":"flood","params":{"n":%d,"text":"something to look at, as long as it usually is"}}`+"\n", n)
			}
			server.say(t, b.Bytes())
		}
	}()
	keys := 0
	typing := time.NewTicker(50 * time.Millisecond) // faster than people
	defer typing.Stop()
	for open := true; open; {
		select {
		case <-stderr:
			open = false
		case <-typing.C:
			p.key("x")
			keys++
		}
	}
	p.until("rows are missing", shownMessages+fmt.Sprintf(" >= %d", shown+total))
	if n := u.total(t) - before; n != total {
		t.Errorf("%d rows are recorded, want %d", n, total)
	}
	if text := ask[string](p, `eyes.text(eyes.first("contentinfo"))`); bytes.Contains([]byte(text), []byte(" dropped")) {
		t.Errorf("the page says %q", text)
	}
	p.row(`flood`)
	p.until("keys are not answered", fmt.Sprint("delays.length >= ", keys/2))
	slow := ask[[]float64](p, "delays.sort((a, b) => a - b)")
	if len(slow) < keys/2 || len(slow) == 0 {
		t.Fatalf("%d of %d keys were answered", len(slow), keys)
	}
	p95 := slow[len(slow)*95/100]
	t.Logf("%d messages in %v; %d keys, from key to frame: median %.0f ms, 95 %% %.0f ms, longest %.0f ms", total, floodTime, keys, slow[len(slow)/2], p95, slow[len(slow)-1])
	tasks := ask[[]float64](p, "tasks.sort((a, b) => b - a)")
	t.Logf("%d tasks of more than 50 ms, the longest %.0f", len(tasks), append(tasks, 0)[0])
	if long() && p95 > inputBound {
		t.Errorf("95 %% of keys are answered in %.0f ms, want %.0f", p95, inputBound)
	}
	p.shot("flood")
}

// shownMessages is the number of messages that the page shows.
const shownMessages = `Number((/([\d,]+) messages?/.exec(eyes.text(eyes.first("contentinfo"))) ?? [0, "0"])[1].replaceAll(",", ""))`

// TestLongSession checks that a long session opens quickly, and its end is reached as fast as its
// start.
func TestLongSession(t *testing.T) {
	file := filepath.Join(t.TempDir(), "long.jsonl")
	rec, err := capture.New(&capture.Options{File: file, MaxMemory: 256 << 20}) // written faster than any wire
	if err != nil {
		t.Fatal(err)
	}
	wire := rec.Wire(capture.WireInfo{Target: "tcp://127.0.0.1:3001"})
	for i := range manyRows / 2 {
		wire.Payload(capture.Out, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"subtract","params":[%d,23]}`, i+1, i))
		wire.Payload(capture.In, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"result":%d}`, i+1, i-23))
	}
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	u := start(t)
	p := u.page(t, desk, "")
	p.see("heading", "Send a message to a server")
	call(p, performance.Enable, performance.EnableParams{TimeDomain: "threadTicks"})
	server, page := u.spent(), p.spent()
	from := time.Now()
	p.drop(file)
	p.until("the session is not open", shownMessages+fmt.Sprint(" >= ", manyRows)+` && eyes.rows().length > 5`)
	took := time.Since(from)
	t.Logf("%d messages open in %v; processor time: %v of parley, %v of the page", manyRows, took.Round(time.Millisecond), u.spent()-server, (p.spent() - page).Round(time.Millisecond))
	if long() && took > manyBound {
		t.Errorf("%d messages take %v to open, want %v", manyRows, took, manyBound)
	}
	p.clickOn(`eyes.all("row").find((e) => /subtract/.test(eyes.text(e)))`)
	p.key("End")
	p.row(fmt.Sprint("subtract .*", manyRows/2))
	p.key("Home")
	p.row(`subtract .*\b1\b`)
	if n := ask[int](p, `document.querySelectorAll("[role=row]").length`); n > 300 {
		t.Errorf("%d rows are in the document, so the list is not virtual", n)
	}
	if n := ask[int](p, `Number(eyes.first("treegrid").getAttribute("aria-rowcount"))`); n < manyRows/2 {
		t.Errorf("a screen reader is told of %d rows", n)
	}
	p.shot("long")
}

// TestWeight checks that the whole page is smaller than one picture.
func TestWeight(t *testing.T) {
	var all int64
	err := fs.WalkDir(os.DirFS("../../playground/web/dist"), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join("../../playground/web/dist", name))
		if err != nil {
			return err
		}
		n := new(counter)
		z := gzip.NewWriter(n)
		if _, err := z.Write(content); err != nil {
			return err
		}
		if err := z.Close(); err != nil {
			return err
		}
		all += int64(*n)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes, gzipped", all)
	if all > weightBound || all < 10_000 {
		t.Errorf("the page weighs %d bytes, gzipped; want at most %d", all, weightBound)
	}
}

type counter int64

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}

// TestFirstPaint checks that the first paint is immediate, and the rest follows soon, each time in
// a new browser profile.
func TestFirstPaint(t *testing.T) {
	u := start(t)
	var p *tab
	var paints, whole []float64
	for range 5 {
		p = open(t, "about:blank", desk)
		p.visit(u.address)
		p.see("heading", "Send a message to a server")
		whole = append(whole, ask[float64](p, "performance.now()"))
		paints = append(paints, ask[float64](p, `eyes.until(() => performance.getEntriesByName("first-contentful-paint")[0]).then(() => performance.getEntriesByName("first-contentful-paint")[0].startTime)`))
	}
	slices.Sort(paints)
	slices.Sort(whole)
	paint := paints[len(paints)/2]
	t.Logf("first contentful paint after %.0f ms, the page is there after %.0f ms (median of %d; paint from %.0f to %.0f)", paint, whole[len(whole)/2], len(paints), paints[0], paints[len(paints)-1])
	if paint <= 0 || long() && paint > paintBound {
		t.Errorf("the first paint is after %.0f ms, want %.0f", paint, paintBound)
	}
	// Everything was loaded from the page's own server.
	for _, name := range ask[[]string](p, `performance.getEntriesByType("resource").map((e) => e.name)`) {
		if len(name) < len(u.base) || name[:len(u.base)] != u.base {
			t.Errorf("the page asks for %s", name)
		}
	}
}
