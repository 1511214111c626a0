package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/internal/load"
	"github.com/da1ed7bb/parley/internal/x/rescue"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/spf13/cobra"
)

// maxBenchConns is the maximum number of connections to one server.
const maxBenchConns = 256

// openCallers is the default of --callers with --rate: the bound on calls at one time.
const openCallers = 256

// benchRounds is how often bench --against changes between the servers.
const benchRounds = 4

// A benchRun is one execution of the bench command.
type benchRun struct {
	app    *app
	output outputFlags
	reach  reachFlags

	callers, batch int
	rate           float64
	duration, ramp time.Duration
	against, data  string

	method string
	params jsonrpc.Raw
}

// A benchResult is the result for one server. Times are in milliseconds.
type benchResult struct {
	Target  string            `json:"target"`
	Calls   uint64            `json:"calls"`
	Errors  map[string]uint64 `json:"errors"`
	Seconds float64           `json:"seconds"`
	Rate    float64           `json:"rate"`
	P50     float64           `json:"p50"`
	P90     float64           `json:"p90"`
	P99     float64           `json:"p99"`
	P999    float64           `json:"p999"`
	Max     float64           `json:"max"`
	Against *benchResult      `json:"against,omitempty"`
}

func (a *app) benchCommand() *cobra.Command {
	b := &benchRun{app: a}
	cmd := &cobra.Command{
		Use:   "bench TARGET METHOD [PARAM…]",
		Short: "measure how fast a server responds",
		Long: `Measure how fast a server responds.

  parley bench http://127.0.0.1:3000/rpc subtract 42 23 --duration 200ms
  parley bench tcp://127.0.0.1:3001 subtract 42 23 --rate 500 --duration 200ms
  parley bench subtract 42 23 --callers 4 --duration 200ms -o json -- parley demo --stdio

With --callers, each caller calls again as soon as it has its response (closed loop). With --rate,
calls are due at fixed times (open loop): a call that is sent late because the server is slow counts
from the time when it was due. Calls that are still due --timeout after the end are not sent and
count as errors. Calls during --ramp do not count. Each caller has a connection, over WebSocket and
sockets up to 256; a command after -- has one. Params are given as for call. Times are in
milliseconds.`,
		RunE: func(cmd *cobra.Command, words []string) error { return b.run(cmd, words) },
	}
	f := cmd.Flags()
	f.IntVar(&b.callers, "callers", 10, "`NUMBER` of calls at one time; with --rate a bound, by default 256")
	f.Float64Var(&b.rate, "rate", 0, "`CALLS` per second, at fixed times")
	f.DurationVar(&b.duration, "duration", 10*time.Second, "`TIME` to measure")
	f.DurationVar(&b.ramp, "ramp", 0, "`TIME` in which the load rises before that")
	f.IntVar(&b.batch, "batch", 1, "`NUMBER` of calls in one batch")
	f.StringVar(&b.against, "against", "", "measure `TARGET` too, in turns, and compare")
	f.StringVarP(&b.data, "data", "d", "", "params as one `JSON` text, @file or - for stdin")
	b.output.registerWith(cmd, formText, append([]string{formText}, forms...))
	b.reach.register(cmd)
	return cmd
}

func (b *benchRun) run(cmd *cobra.Command, words []string) error {
	ctx := cmd.Context()
	printer, err := b.app.printer(b.output)
	if err != nil {
		return err
	}
	if b.rate > 0 && !cmd.Flags().Changed("callers") {
		b.callers = openCallers
	}
	switch {
	case b.callers < 1 || b.callers > 10_000:
		return usagef("--callers must be from 1 to 10000")
	case b.rate < 0 || b.rate > 1e7:
		return usagef("--rate must be from 0 to 10000000")
	case b.duration <= 0 || b.ramp < 0:
		return usagef("--duration must be more than 0, and --ramp must not be negative")
	case b.batch < 1 || b.batch > 10_000:
		return usagef("--batch must be from 1 to 10000")
	case b.reach.trace != "":
		return usagef("--trace would measure the trace; use it with call")
	}
	target, words, err := b.app.target(ctx, &b.reach, words, false)
	if err != nil {
		return err
	}
	if len(words) == 0 {
		return usagef("missing METHOD. Usage: parley bench %s METHOD [PARAM…]", target)
	}
	c := &call{app: b.app, data: b.data}
	if b.params, err = c.params(cmd, words[1:]); err != nil {
		return err
	}
	b.method = words[0]
	one, err := b.bencher(ctx, target)
	if err != nil {
		return err
	}
	defer one.close()
	all := []*bencher{one}
	if b.against != "" {
		other, err := b.app.parseTarget(ctx, &b.reach, b.against)
		if err != nil {
			return err
		}
		two, err := b.bencher(ctx, other)
		if err != nil {
			return err
		}
		defer two.close()
		all = append(all, two)
	}
	b.measure(ctx, all)
	result := one.result()
	if len(all) > 1 {
		result.Against = all[1].result()
	}
	if err := b.print(ctx, printer, result); err != nil {
		return err
	}
	switch failed := result.failed(); {
	case ctx.Err() != nil:
		return &silentError{exitCancelled}
	case result.Calls == 0 || failed == result.Calls:
		return &silentError{exitRPC}
	}
	return nil
}

// A bencher measures one server.
type bencher struct {
	target  parley.Target
	clients []*parley.Client
	web     *load.HTTP // makes the calls, if not nil
	load    *load.Load
}

// bencher connects to a server and makes one call that does not count.
func (b *benchRun) bencher(ctx context.Context, t parley.Target) (*bencher, error) {
	if err := b.reach.fit(t); err != nil {
		return nil, err
	}
	dialer, err := b.app.dialer(b.reach)
	if err != nil {
		return nil, err
	}
	one := &bencher{target: t}
	one.web = b.direct(dialer, t)
	conns := min(b.callers, maxBenchConns)
	if t.Scheme == "exec" || one.web != nil {
		conns = 1
	}
	for range conns {
		client, err := dialer.Dial(ctx, t)
		if err != nil {
			one.close()
			return nil, &dialError{t, err}
		}
		one.clients = append(one.clients, client)
	}
	var params any
	if b.params != nil {
		params = b.params
	}
	one.load = load.New(load.Options{Callers: b.callers, Rate: b.rate / float64(b.batch), Ramp: b.ramp, Late: b.reach.timeout, Each: b.batch, Call: func(ctx context.Context, i int) []error {
		client := one.clients[i%len(one.clients)]
		if one.web != nil {
			return []error{one.web.Call(ctx, i)}
		}
		if b.batch == 1 {
			return []error{client.Call(ctx, b.method, params, nil)}
		}
		items := make([]jsonrpc.Item, b.batch)
		for i := range items {
			items[i] = jsonrpc.Item{Method: b.method, Params: params}
		}
		err := client.Batch(ctx, items)
		errs := make([]error, b.batch)
		for i := range items {
			if errs[i] = items[i].Err; errs[i] == nil {
				errs[i] = err
			}
		}
		return errs
	}})
	first := (&call{app: b.app, reach: b.reach, target: t})
	err = one.clients[0].Call(ctx, b.method, params, nil)
	if err != nil && !is[*jsonrpc.Error](err) { // a server that cannot be reached
		one.close()
		return nil, first.explain(ctx, b.method, err)
	}
	return one, nil
}

// direct returns a client for single calls over plain HTTP. With a proxy, TLS or batches, it
// returns nil: these have the client of all commands.
func (b *benchRun) direct(d *parley.Dialer, t parley.Target) *load.HTTP {
	at, err := url.Parse(t.URL())
	if err != nil || t.Scheme != "http" || b.batch != 1 {
		return nil
	}
	if proxy, err := http.ProxyFromEnvironment(&http.Request{URL: at}); err != nil || proxy != nil {
		return nil
	}
	o := load.HTTPOptions{Header: http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Accept-Encoding": {"identity"}, "User-Agent": {"parley"},
	}, Version: t.Version, Method: b.method, Callers: b.callers, Timeout: b.reach.timeout}
	if d.Token != "" {
		o.Header.Set("Authorization", "Bearer "+d.Token)
	}
	maps.Copy(o.Header, d.Header)
	if b.params != nil {
		o.Params = b.params
	}
	return load.NewHTTP(at, o)
}

// close closes all connections at once.
func (one *bencher) close() {
	if one.web != nil {
		one.web.Close()
	}
	var all sync.WaitGroup
	for _, client := range one.clients {
		all.Go(func() {
			defer rescue.Catch(nil, nil)
			_ = client.Close() // the results are complete
		})
	}
	all.Wait()
}

// measure runs the load, with two servers in turns, and shows the progress on a terminal.
func (b *benchRun) measure(ctx context.Context, all []*bencher) {
	for _, one := range all {
		if one.web != nil {
			defer context.AfterFunc(ctx, one.web.Close)()
		}
	}
	done := make(chan struct{})
	var shown sync.WaitGroup
	if isTerminal(b.app.stderr) {
		shown.Go(func() { b.progress(all, done) })
	}
	if len(all) == 1 {
		all[0].load.Run(ctx, b.duration)
	} else {
		for i := range benchRounds {
			// forth and back, so that a machine that becomes slower harms both
			first, second := all[i%2], all[1-i%2]
			first.load.Run(ctx, b.duration/benchRounds)
			second.load.Run(ctx, b.duration/benchRounds)
		}
	}
	close(done)
	shown.Wait()
}

// progress prints a line each second.
func (b *benchRun) progress(all []*bencher, done <-chan struct{}) {
	every := time.NewTicker(time.Second)
	defer every.Stop()
	for {
		select {
		case <-done:
			return
		case <-every.C:
		}
		for _, one := range all {
			fmt.Fprintf(b.app.stderr, "parley: %s: %d calls, p99 %.3g ms, %d errors\n", visible(one.target.String(), 60),
				one.load.Calls(), ms(one.load.Times.Quantile(0.99)), (&benchResult{Errors: one.load.Errors()}).failed())
		}
	}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func (one *bencher) result() *benchResult {
	l := one.load
	r := &benchResult{
		Target: one.target.String(), Calls: l.Calls(), Errors: l.Errors(), Seconds: l.Seconds(),
		P50: ms(l.Times.Quantile(0.5)), P90: ms(l.Times.Quantile(0.9)), P99: ms(l.Times.Quantile(0.99)),
		P999: ms(l.Times.Quantile(0.999)), Max: ms(l.Times.Max()),
	}
	if r.Seconds > 0 {
		r.Rate = float64(r.Calls) / r.Seconds
	}
	return r
}

func (r *benchResult) failed() (n uint64) {
	for _, count := range r.Errors {
		n += count
	}
	return n
}

// print prints the result as text, or in the format of -o.
func (b *benchRun) print(ctx context.Context, p *printer, r *benchResult) error {
	if b.output.format != formText || b.output.jq != "" {
		text, err := json.Marshal(r)
		if err != nil {
			return err
		}
		if b.output.format == formText {
			p.format = "json"
		}
		return p.print(context.WithoutCancel(ctx), text)
	}
	var err error
	for ; r != nil; r = r.Against {
		_, printed := fmt.Fprintf(b.app.stdout, "%s\n  %d calls in %.2f s, %.0f per second\n  p50 %.3f  p90 %.3f  p99 %.3f  p99.9 %.3f  max %.3f ms\n%s",
			visible(r.Target, 300), r.Calls, r.Seconds, r.Rate, r.P50, r.P90, r.P99, r.P999, r.Max, errorLines(r.Errors))
		err = errors.Join(err, printed)
	}
	return err
}

func errorLines(counts map[string]uint64) string {
	if len(counts) == 0 {
		return "  no errors\n"
	}
	var b strings.Builder
	for _, code := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(&b, "  error %s: %d\n", code, counts[code])
	}
	return b.String()
}
