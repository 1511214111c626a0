// Command tck-agent is the agent that the A2A conformance kit (a2a-tck) tests. The beginning of a
// message's id selects its behaviour, as the kit's scenarios require. It listens on loopback,
// prints "ready ADDRESS" and exits when its stdin is closed, or on SIGTERM.
//
//	tck-agent [-listen 127.0.0.1:0] [-old] [-bare] [-extension]
//
// -old also serves v0.3, with a card for both versions, and leaves tasks open whose messages select
// no behaviour, as the kit of v0.3 requires. The kit of v1.0 requires a card of v1.0 alone. -bare
// offers no streams, webhooks or extended card, and -extension requires an extension: the kit then
// checks the errors.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/a2a/a2ahttp"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address on loopback")
	old := flag.Bool("old", false, "serve v0.3 too")
	bare := flag.Bool("bare", false, "offer nothing that is optional")
	extension := flag.Bool("extension", false, "require an extension")
	flag.Parse()
	change := func(c *a2a.AgentCard) {
		if *bare {
			c.Capabilities = a2a.AgentCapabilities{}
		}
		if *extension {
			c.Capabilities.Extensions = []a2a.AgentExtension{{URI: "urn:a2a:tck:required-extension", Required: true}}
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, *listen, *old, change); err != nil {
		fmt.Fprintln(os.Stderr, "tck-agent:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, listen string, old bool, change func(*a2a.AgentCard)) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	base := "http://" + l.Addr().String()
	versions := []a2a.Version{a2a.V10}
	if old {
		versions = a2a.Versions()
	}
	pusher := &a2ahttp.Pusher{Loopback: true} // the kit's webhook is on this machine
	defer pusher.Close()
	otherwise := complete
	if old {
		otherwise = question
	}
	public := card(base, versions)
	change(&public)
	s := a2a.NewServer(public, a2a.AgentFunc(func(ctx context.Context, r *a2a.Run) error { return act(ctx, r, otherwise) }), &a2a.ServerOptions{
		Versions: versions, Push: pusher,
		Repeat: -1, // the kit uses one id for many messages
		ExtendedCard: func(context.Context, a2a.Service) (*a2a.AgentCard, error) {
			extended := card(base, versions)
			extended.Description += " This is the card for those who are known."
			return &extended, nil
		},
		Report: func(what string, err error) { fmt.Fprintln(os.Stderr, what+":", err) },
	})
	defer s.Close()
	web := &http.Server{Handler: &a2ahttp.Server{A2A: s}, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		<-ctx.Done()
		_ = web.Close()
	}()
	fmt.Println("ready", base)
	if err := web.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func card(base string, versions []a2a.Version) a2a.AgentCard {
	return a2a.AgentCard{
		Name: "parley tck-agent", Description: "Does what the conformance kit asks for.", Version: "1.0.0",
		Provider:            &a2a.AgentProvider{URL: "https://github.com/da1ed7bb/parley", Organization: "parley"},
		SupportedInterfaces: a2ahttp.Interfaces(base, base, versions...),
		Capabilities:        a2a.AgentCapabilities{Streaming: true, PushNotifications: true, ExtendedAgentCard: len(versions) == 1},
		DefaultInputModes:   []string{"text/plain", "application/json", "image/*", "application/octet-stream"},
		DefaultOutputModes:  []string{"text/plain", "application/json"},
		Skills: []a2a.AgentSkill{{ID: "tck", Name: "Conformance", Description: "Plays the scenarios of the kit.", Tags: []string{"test"},
			Examples: []string{"tck-complete-task"}}},
	}
}

// A play is the behaviour for one beginning of a message id.
type play struct {
	prefix string
	act    func(ctx context.Context, r *a2a.Run) error
}

// plays are checked in order: longer beginnings come first.
var plays = []play{
	{"tck-artifact-file-url", artifact(a2a.Part{Kind: a2a.KindURL, URL: "https://example.com/output.txt", Filename: "output.txt", MediaType: "text/plain"})},
	{"tck-artifact-file", artifact(a2a.File("output.txt", "text/plain", []byte("file content")))},
	{"tck-artifact-data", artifact(a2a.Data(map[string]any{"key": "value", "count": 42}))},
	{"tck-artifact-text", artifact(a2a.Text("Generated text content"))},
	{"tck-message-response", func(ctx context.Context, r *a2a.Run) error { return r.Reply(ctx, a2a.Text("Direct message response")) }},
	{"tck-input-required", question},
	{"tck-reject-task", func(context.Context, *a2a.Run) error { return a2a.Reject("rejected") }},
	{"tck-stream-001", stream(a2a.Text("Stream hello from TCK"))},
	{"tck-stream-002", func(context.Context, *a2a.Run) error { return nil }},
	{"tck-stream-003", stream(a2a.Text("Stream task lifecycle"))},
	{"tck-stream-ordering-001", stream(a2a.Text("Ordered output"))},
	{"tck-stream-artifact-text", stream(a2a.Text("Streamed text content"))},
	{"tck-stream-artifact-file", stream(a2a.File("output.txt", "text/plain", []byte("file content")))},
	{"tck-stream-artifact-chunked", chunks},
	{"test-resubscribe-message-id", slow},
	{"tck-complete-task", complete},
}

func act(ctx context.Context, r *a2a.Run, otherwise func(context.Context, *a2a.Run) error) error {
	for _, p := range plays {
		if strings.HasPrefix(r.Message.MessageID, p.prefix) {
			return p.act(ctx, r)
		}
	}
	return otherwise(ctx, r)
}

func question(ctx context.Context, r *a2a.Run) error {
	return r.Status(ctx, a2a.StateInputRequired, a2a.Text("What else?"))
}

func complete(ctx context.Context, r *a2a.Run) error {
	return r.Status(ctx, a2a.StateCompleted, a2a.Text("Hello from TCK"))
}

func artifact(part a2a.Part) func(context.Context, *a2a.Run) error {
	return func(ctx context.Context, r *a2a.Run) error {
		return r.Artifact(ctx, a2a.Artifact{Name: "output", Parts: []a2a.Part{part}})
	}
}

func stream(part a2a.Part) func(context.Context, *a2a.Run) error {
	return func(ctx context.Context, r *a2a.Run) error {
		if err := r.Working(ctx); err != nil {
			return err
		}
		return artifact(part)(ctx, r)
	}
}

func chunks(ctx context.Context, r *a2a.Run) error {
	if err := r.Working(ctx); err != nil {
		return err
	}
	if err := r.Chunk(ctx, a2a.Artifact{ArtifactID: "output", Parts: []a2a.Part{a2a.Text("chunk-1 ")}}, false, false); err != nil {
		return err
	}
	return r.Chunk(ctx, a2a.Artifact{ArtifactID: "output", Parts: []a2a.Part{a2a.Text("chunk-2")}}, true, true)
}

// slow works for twice the time that the kit waits for a stream. The kit passes that time in
// TCK_STREAMING_TIMEOUT, in seconds.
func slow(ctx context.Context, r *a2a.Run) error {
	if err := r.Working(ctx); err != nil {
		return err
	}
	wait := 4 * time.Second
	if d, err := time.ParseDuration(os.Getenv("TCK_STREAMING_TIMEOUT") + "s"); err == nil {
		wait = 2 * d
	}
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
