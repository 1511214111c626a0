package main

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/capture/tap"
	"github.com/da1ed7bb/parley/internal/demo"
	"github.com/da1ed7bb/parley/transport/socket"
)

// A room is the demo services of the lessons, in this process, each with a tap before it: what is
// on the wire is recorded, also if another program sends it, and the bytes are unchanged.
type room struct {
	rec    *capture.Recorder
	places map[string]string // addresses of the taps by the name that the lessons use

	cancel  context.CancelFunc
	running sync.WaitGroup
	closers []func()
}

// The services of the lessons: the name that the lessons use, and the options of its address.
var roomServices = []struct{ name, listen, options string }{
	{"@demo", "http://127.0.0.1:0", ""},
	{"@demo-tcp", "tcp://127.0.0.1:0", ""},
	{"@demo-1.0", "tcp://127.0.0.1:0?jsonrpc=1.0", "?jsonrpc=1.0"},
	{"@demo-lsp", "tcp://127.0.0.1:0?framing=header", "?framing=header"},
}

// openRoom starts the services on free ports of the loopback address.
func (a *app) openRoom(ctx context.Context) (_ *room, err error) {
	// Passwords do not occur, and the lessons show what is sent; nothing is written to a disk.
	rec, err := capture.New(&capture.Options{MaxDisk: -1, Redact: capture.Redaction{Off: true}})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &room{rec: rec, places: make(map[string]string), cancel: cancel}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	report := func(string, error) {} // the calls of the lessons fail on purpose
	service := demo.New(thisBuild().Version)
	tools := demo.NewMCP(thisBuild().Version, &demo.MCPOptions{Report: report})
	r.closers = append(r.closers, tools.Close)
	listener := &parley.Listener{Handler: service.Handler(), Mode: service.Mux.Mode, Report: report}
	addMCP(listener, tools, nil)
	targets := make([]parley.Target, len(roomServices))
	for i, s := range roomServices {
		if targets[i], err = parley.ParseTarget(s.listen); err != nil {
			return nil, err
		}
	}
	server, err := listener.Listen(ctx, targets...)
	if err != nil {
		return nil, err
	}
	r.running.Go(func() { _ = server.Serve(ctx) }) // ends with close
	r.closers = append(r.closers, func() { _ = server.Close() })
	for i, t := range server.Targets() {
		place, err := r.tap(ctx, roomServices[i].name, t)
		if err != nil {
			return nil, err
		}
		if t.Scheme == "http" {
			// One tap, but the lessons have two names for it.
			r.places["@demo"], r.places["@table"] = "http://"+place+"/rpc", "http://"+place+"/mcp"
			continue
		}
		r.places[roomServices[i].name] = "tcp://" + place + roomServices[i].options
	}
	return r, r.editor(ctx, report)
}

// tap records the connections to a service under the name, and returns where clients connect.
func (r *room) tap(ctx context.Context, name string, t parley.Target) (place string, err error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	place = l.Addr().String()
	relay := &tap.Relay{
		Dial:   func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", t.Address) },
		Record: r.rec, Info: capture.WireInfo{Target: name, Carrier: t.Scheme},
	}
	if t.Scheme == "http" {
		relay.Carrier, relay.Host, relay.Names = tap.HTTP, t.Address, []string{place}
	}
	if strings.Contains(t.String(), "framing=header") {
		relay.Framing = tap.Header
	}
	r.running.Go(func() { _ = relay.Serve(ctx, l) }) // ends with close
	return place, nil
}

// editor serves the demo's agent for the Agent Client Protocol: one agent for each connection.
func (r *room) editor(ctx context.Context, report func(string, error)) error {
	l, err := socket.Listen(ctx, "tcp", "127.0.0.1:0", nil)
	if err != nil {
		return err
	}
	r.closers = append(r.closers, func() { _ = l.Close() })
	version := thisBuild().Version
	r.running.Go(func() {
		var open sync.WaitGroup
		defer open.Wait()
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			stop := context.AfterFunc(ctx, func() { _ = c.Close() })
			open.Go(func() {
				defer stop()
				_ = demo.Editor(version, "scribe", demo.Agents(version, report), report).Serve(ctx, c) // ends with the connection
			})
		}
	})
	place, err := r.tap(ctx, "@scribe", parley.Target{Scheme: "tcp", Address: l.Addr().String()})
	r.places["@scribe"] = "tcp://" + place
	return err
}

// targetOf returns the name under which a target of a lesson is recorded.
func (r *room) recordedAs(name string) string {
	if name == "@table" {
		return "@demo"
	}
	return name
}

// close stops the services and waits for them.
func (r *room) close() {
	r.cancel()
	for _, end := range r.closers {
		end()
	}
	r.running.Wait()
	if err := r.rec.Close(); err != nil && !errors.Is(err, capture.ErrStuck) {
		return // the recording is in memory only
	}
}
