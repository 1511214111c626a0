package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/internal/lessons"
	"github.com/da1ed7bb/parley/internal/x/guard"
	"github.com/da1ed7bb/parley/internal/x/proc"
	"github.com/da1ed7bb/parley/mcp/oauth"
	"github.com/da1ed7bb/parley/playground"
)

// usualPlace is where the page is, if nobody else is there.
const usualPlace = "127.0.0.1:7400"

// upFlags are those of the verb.
type upFlags struct {
	config string
	listen string
	open   bool
	noDemo bool
	record string
}

func (a *app) upCommand() *cobra.Command {
	var flags upFlags
	cmd := &cobra.Command{
		Use:   "up",
		Short: "open the page: send anything, see everything",
		Long: `Open the page: send anything, right or wrong, to any server, and see everything on the wire.

  parley up                       the page, with demo services to try
  parley up -c mcp.json           and the servers of that file: parley.yaml, or what any MCP client has
  parley up --open                and show it in the browser

The address that is printed has a token in it that is good until the end. Whoever has it can do what the page can.
With -c FILE you approve the programs in FILE: the page may start and stop them by name, and no others. A program that
FILE gets later is approved by a restart, or by the signal HUP.`,
		Args: noWords,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.up(cmd.Context(), flags) },
	}
	f := cmd.Flags()
	f.StringVarP(&flags.config, "config", "c", "", "`FILE` with servers; it is read again when it changes")
	f.StringVarP(&flags.listen, "listen", "l", "", "`ADDRESS` of the page on this machine, such as 127.0.0.1:8080 (default 127.0.0.1:7400, or any free port)")
	f.BoolVar(&flags.open, "open", false, "show the page in the browser")
	f.BoolVar(&flags.noDemo, "no-demo", false, "start no demo services")
	f.StringVar(&flags.record, "record", "", "keep what is recorded in `FILE`, a line for each event")
	return cmd
}

// up runs the page until ctx ends.
func (a *app) up(ctx context.Context, flags upFlags) error {
	if a.hasArgv {
		return usagef("parley up starts programs of a file only: parley up -c FILE")
	}
	file, err := a.upFile(flags.config)
	if err != nil {
		return err
	}
	bound, err := bindPage(ctx, flags.listen)
	if err != nil {
		return err
	}
	defer bound.Close()

	reports := &reporter{w: a.stderr}
	say := func(line string) { fmt.Fprintf(a.stderr, "parley: %s\n", visible(line, 2000)) }
	var services []playground.Target
	if !flags.noDemo {
		demo, err := a.startDemo(ctx)
		if err != nil {
			return err
		}
		defer demo.stop()
		services = demo.targets()
	}
	o := &playground.Options{
		Targets: append(services, file.targets()...),
		Lessons: lessons.All(),
		Configs: file,
		Judges:  judges,
		Version: thisBuild().Version,
		Log:     say,
	}
	o.Recording.File = flags.record
	o.Recording.Redact.Values = file.secrets()
	page, err := playground.New(o)
	if err != nil {
		return err
	}
	if c := file.config(); c != nil {
		page.SetConfig(c)
	}
	address := "http://" + bound.Addr().String() + "/#token=" + page.Token()
	fmt.Fprintf(a.stderr, "parley is up. Open this address; the token in it is good until parley ends:\n\n  %s\n\n", address)
	if flags.open {
		if err := oauth.OpenBrowser(ctx, address); err != nil {
			say("the browser could not be opened: " + err.Error())
		}
	}
	return a.servePage(ctx, page, bound, file, services, reports)
}

// servePage serves until ctx ends, and then ends everything politely.
func (a *app) servePage(ctx context.Context, page *playground.Playground, bound net.Listener, file *upFile, services []playground.Target, reports *reporter) error {
	server := guard.NewServer(page, log.New(errorWriter(reports.report), "", 0))
	ended := make(chan error, 1)
	watching, stop := context.WithCancel(ctx)
	var tasks sync.WaitGroup
	tasks.Go(func() { ended <- server.Serve(guard.Linger(bound)) })
	tasks.Go(func() {
		file.watch(watching, func() {
			page.SetTargets(append(services[:len(services):len(services)], file.targets()...))
			page.SetConfig(file.config())
		})
	})
	var err error
	select {
	case <-ctx.Done():
	case err = <-ended:
	}
	stop()
	err = errors.Join(err, page.Close()) // the streams to pages end with it
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_ = server.Shutdown(last) // what does not end is cut off
	_ = server.Close()        // likewise
	tasks.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	if err == nil && ctx.Err() == nil {
		return nil
	}
	return err
}

// errorWriter hands what net/http complains about to a report function.
type errorWriter func(what string, err error)

func (w errorWriter) Write(line []byte) (int, error) {
	w("http", errors.New(string(line)))
	return len(line), nil
}

// bindPage listens where the page is to be: on this machine alone.
func bindPage(ctx context.Context, address string) (net.Listener, error) {
	wanted := address
	if wanted == "" {
		wanted = usualPlace
	}
	host, _, err := net.SplitHostPort(wanted)
	if err != nil {
		return nil, usagef("--listen is an address such as 127.0.0.1:8080")
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, usagef("the page is for this machine alone: --listen 127.0.0.1:PORT")
	}
	bound, err := new(net.ListenConfig).Listen(ctx, "tcp", wanted)
	if err != nil && address == "" {
		bound, err = new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	}
	if err != nil {
		return nil, fmt.Errorf("the page cannot be at %s: %w", wanted, errors.Join(parley.ErrAddressInUse, err))
	}
	return bound, nil
}

// A demoProcess is "parley demo" in a process of its own.
type demoProcess struct {
	process *proc.Process
	self    string
	places  map[string]string // addresses by what is asked for behind the port
	output  sync.WaitGroup
	pipe    *os.File
}

// demoTime is how long the demo services may take to be there.
const demoTime = 15 * time.Second

// Where the demo services listen, on ports of the system's choice.
var demoPlaces = []string{"http://127.0.0.1:0", "tcp://127.0.0.1:0", "tcp://127.0.0.1:0?jsonrpc=1.0", "tcp://127.0.0.1:0?framing=header"}

var demoPlace = regexp.MustCompile(`\b((?:http|tcp)://127\.0\.0\.1:)(\d+)(\?[a-z]+=[a-z0-9.]+)?`)

// startDemo starts the demo services and waits until they say where they are.
func (a *app) startDemo(ctx context.Context) (*demoProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	words := []string{"demo", "--first", "courier"}
	for _, place := range demoPlaces {
		words = append(words, "--listen", place)
	}
	cmd := exec.Command(self, words...) //nolint:noctx // proc ends it, politely
	cmd.Stderr = w
	d := &demoProcess{self: self, pipe: r, places: make(map[string]string)}
	d.process, err = proc.Start(cmd, proc.Limits{})
	_ = w.Close() // the child has its own
	if err != nil {
		_ = r.Close() // err says why
		return nil, fmt.Errorf("the demo services do not start: %w", err)
	}
	ready := make(chan struct{})
	d.output.Go(func() { d.read(r, ready) })
	late := time.NewTimer(demoTime)
	defer late.Stop()
	select {
	case <-ready:
		return d, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-d.process.Done():
		err = errors.New("the demo services ended at once; parley demo says why")
	case <-late.C:
		err = fmt.Errorf("the demo services were not there in %v", demoTime)
	}
	d.stop()
	return nil, err
}

// read reads what the services print: first where they are. The rest is not for the page's terminal.
func (d *demoProcess) read(r io.Reader, ready chan struct{}) {
	lines := bufio.NewScanner(r)
	for lines.Scan() && len(d.places) < len(demoPlaces) {
		m := demoPlace.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		if asked := m[1] + "0" + m[3]; d.places[asked] == "" {
			d.places[asked] = m[0]
		}
		if len(d.places) == len(demoPlaces) {
			close(ready)
		}
	}
	_, _ = io.Copy(io.Discard, r) // a line that was too long must not stop the services
}

// stop ends the services and waits for them.
func (d *demoProcess) stop() {
	_ = d.process.Terminate() // it may have ended
	select {
	case <-d.process.Done():
	case <-time.After(5 * time.Second):
		_ = d.process.Kill() // likewise
		<-d.process.Done()
	}
	_ = d.pipe.Close() // nothing more is read
	d.output.Wait()
}

// targets are the services as the page shows them.
func (d *demoProcess) targets() []playground.Target {
	root := d.places[demoPlaces[0]]
	list := []playground.Target{
		{Name: "@demo", Title: "JSON-RPC 2.0", About: "Arithmetic, errors on demand, slow calls", Address: root + "/rpc"},
		{Name: "@table", Title: "MCP, 5 versions", About: "Books a table: progress, and a question in the middle", Protocol: playground.ProtocolMCP, Address: root + mcpPath},
		{Name: "@scribe", Title: "ACP of editors", About: "Writes a note: streams text, asks for permission", Protocol: playground.ProtocolEditor,
			Command: []string{d.self, "demo", "--editor", "--stdio"}, Show: "parley demo --editor --stdio"},
		{Name: "@courier", Title: "A2A", About: "Delivers a parcel: a long task you can leave and rejoin", Protocol: playground.ProtocolA2A, Address: root + a2aPath},
		{Name: "@agents", Title: "ACP", About: "Six agents: echo, words, ask, slow, scribe, courier", Protocol: playground.ProtocolACP, Address: root + acpRPCPath},
		{Name: "@demo-tcp", Title: "JSON-RPC 2.0 over TCP", About: "The same as @demo, where both sides may ask", Address: d.places[demoPlaces[1]]},
		{Name: "@demo-1.0", Title: "JSON-RPC 1.0", About: "The same as @demo, of 2005", Address: d.places[demoPlaces[2]]},
		{Name: "@demo-lsp", Title: "JSON-RPC 2.0 behind headers", About: "The same as @demo, framed as language servers do", Protocol: playground.ProtocolJSONRPC, Address: d.places[demoPlaces[3]]},
	}
	for i := range list {
		list[i].From = playground.FromDemo
	}
	return list
}
