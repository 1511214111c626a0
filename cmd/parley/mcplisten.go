package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"
)

func (a *app) mcpListen() *cobra.Command {
	var count int
	var during time.Duration
	cmd, v := a.mcpSubcommand(&cobra.Command{
		Use:   "listen TARGET [URI…]",
		Short: "print changes of lists and of resources",
		Long: `Print changes of the lists of tools, resources and prompts, and of the given resources, one per
line.

  parley mcp listen :3000/mcp clock://now --count 2
  parley mcp listen :3000/mcp table://bookings --for 2s
  parley mcp listen clock://now -o ndjson --for 1s -- parley demo --mcp --stdio

Stop with Ctrl-C, --count or --for. --timeout limits only the time until listening starts.`,
	}, -1, func(ctx context.Context, v *mcpCommand, uris []string) error {
		return listen(ctx, v, uris, count, during)
	})
	cmd.Flags().IntVarP(&count, "count", "n", 0, "stop after `N` changes")
	cmd.Flags().DurationVar(&during, "for", 0, "stop after `TIME`")
	v.uris = true
	cmd.ValidArgsFunction = a.completeMCP(v, completeURIs, true)
	return cmd
}

// A changeLine is a change as printed for programs.
type changeLine struct {
	Time   time.Time `json:"time"`
	Method string    `json:"method"`
	URI    string    `json:"uri,omitzero"`
}

func listen(ctx context.Context, v *mcpCommand, uris []string, count int, during time.Duration) error {
	if count < 0 || during < 0 {
		return usagef("--count and --for must not be negative")
	}
	heard := 0
	began := time.Now()
	listening, stop := context.WithCancelCause(ctx)
	var looking sync.WaitGroup
	defer looking.Wait()
	defer stop(nil)
	looking.Go(func() { v.lookAfter(listening, stop) })
	err := v.client.Listen(listening, mcp.Filter{
		ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true, ResourceSubscriptions: uris,
	}, func(ch mcp.Change) error {
		if ch.Method == mcp.NotifyAcknowledged {
			v.patience.pause() // from here on silence is not an error
			if during > 0 {
				time.AfterFunc(during-min(during, time.Since(began)), func() { stop(errEnough) })
			}
			v.screen.line("listening; press Ctrl-C to stop")
			return nil
		}
		if err := v.printChange(ctx, ch); err != nil {
			return err
		}
		if heard++; heard == count {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) || errors.Is(context.Cause(listening), errEnough) {
		return nil
	}
	if errors.Is(err, &jsonrpc.Error{Code: jsonrpc.CodeShuttingDown}) {
		return &shownError{"the server is shutting down", mcp.ErrListenEnded}
	}
	return err
}

// lookTime is the time within which a server must respond after its stream broke.
const lookTime = 5 * time.Second

// lookAfter pings the server each time the transport reports a problem. Over HTTP a broken stream
// is reopened again and again, even if the server is gone.
func (v *mcpCommand) lookAfter(ctx context.Context, stop context.CancelCauseFunc) {
	for {
		select {
		case <-v.trouble:
		case <-ctx.Done():
			return
		}
		look, cancel := context.WithTimeout(ctx, lookTime)
		err := v.client.Ping(look)
		cancel()
		if err != nil && ctx.Err() == nil {
			stop(err)
			return
		}
	}
}

func (v *mcpCommand) printChange(ctx context.Context, ch mcp.Change) error {
	now := time.Now()
	if v.output.format != formText {
		raw, err := json.Marshal(changeLine{Time: now.UTC(), Method: ch.Method, URI: ch.URI})
		if err != nil {
			return err
		}
		return v.printer.line(ctx, raw)
	}
	what := strings.TrimSuffix(strings.TrimPrefix(ch.Method, "notifications/"), "/list_changed")
	if ch.Method == mcp.NotifyResourceUpdated {
		what = ch.URI
	} else {
		what = "the list of " + what
	}
	return v.printLines(now.Format("15:04:05") + "  " + what + " has changed")
}

func (a *app) mcpPing() *cobra.Command {
	cmd, v := a.mcpSubcommand(&cobra.Command{
		Use:   "ping TARGET",
		Short: "check a server: name, version, protocol version and capabilities",
		Long: `Check a server, and print its name, version, protocol version and capabilities.

  parley mcp ping :3000/mcp
  parley mcp ping :3000/mcp --protocol 2025-06-18
  parley mcp ping -o json -- parley demo --mcp --stdio`,
	}, 0, ping)
	cmd.ValidArgsFunction = a.completeMCP(v, nil, false)
	return cmd
}

// A pong is the output of ping for programs.
type pong struct {
	Milliseconds float64                `json:"ms"`
	Protocol     string                 `json:"protocol"`
	Server       mcp.Implementation     `json:"server"`
	Capabilities mcp.ServerCapabilities `json:"capabilities"`
	Instructions string                 `json:"instructions,omitzero"`
}

func ping(ctx context.Context, v *mcpCommand, _ []string) error {
	began := time.Now()
	if err := v.client.Ping(ctx); err != nil {
		return err
	}
	took := time.Since(began)
	flagHidden(v.screen, "the server", v.client.ServerInfo().Name, []any{v.client.ServerInfo(), v.client.Instructions()})
	p := pong{float64(took.Microseconds()) / 1000, v.client.Version().String(), v.client.ServerInfo(), v.client.ServerCapabilities(), v.client.Instructions()}
	if v.output.format != formText {
		return v.printJSON(ctx, p)
	}
	b := v.listing()
	name := strings.TrimSpace(orElse(p.Server.Title, orElse(p.Server.Name, "Unnamed server")) + " " + p.Server.Version)
	fmt.Fprintf(b, "%s responded in %s, MCP %s\n", visible(name, 200), milliseconds(took), p.Protocol)
	if offers := offersOf(&p.Capabilities); offers != "" {
		b.wrap("  ", "offers "+offers)
	}
	for line := range strings.Lines(p.Instructions) {
		b.wrap("  ", line)
	}
	return v.printLines(b.String())
}

// offersOf describes capabilities in words.
func offersOf(c *mcp.ServerCapabilities) string {
	var words []string
	add := func(on bool, word string) {
		if on {
			words = append(words, word)
		}
	}
	add(c.Tools != nil, "tools")
	add(c.Resources != nil, "resources")
	add(c.Resources != nil && c.Resources.Subscribe, "subscriptions")
	add(c.Prompts != nil, "prompts")
	add(c.Completions != nil, "completion")
	add(c.Logging != nil, "logging")
	add(c.Tasks != nil || c.Extensions[mcp.ExtensionTasks] != nil, "tasks")
	for _, name := range sortedNames(c.Extensions) {
		add(name != mcp.ExtensionTasks, name)
	}
	return strings.Join(words, ", ")
}
