// Command everything-client is the client that the conformance suite of MCP tests: parley's client,
// which does what each scenario requires.
//
//	everything-client [flags] URL
//
// The suite passes the scenario, the protocol version and other data in the environment variables
// MCP_CONFORMANCE_SCENARIO, MCP_CONFORMANCE_PROTOCOL_VERSION and MCP_CONFORMANCE_CONTEXT. Without a
// protocol version the client detects it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/mcp/mcphttp"
)

func main() {
	if err := run(os.Args[1:], os.Getenv, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "everything-client:", err)
		os.Exit(1)
	}
}

// sceneTime is the timeout of a scenario, slightly shorter than that of the suite.
const sceneTime = 28 * time.Second

func run(args []string, env func(string) string, log io.Writer) error {
	if len(args) == 0 {
		return errors.New("usage: everything-client URL")
	}
	name := env("MCP_CONFORMANCE_SCENARIO")
	play := scenarios[name]
	if play == nil {
		if !strings.HasPrefix(name, "auth/") {
			return fmt.Errorf("no scenario %q", name)
		}
		play = withToken
	}
	ctx, cancel := context.WithTimeout(context.Background(), sceneTime)
	defer cancel()
	address := args[len(args)-1]
	carrier, err := authTransport(address)
	if err != nil {
		return err
	}
	s := scene{context: jsonrpc.Raw(env("MCP_CONFORMANCE_CONTEXT")), log: log}
	o := &mcphttp.ClientOptions{Client: options(log)}
	if carrier != nil {
		o.HTTP = &http.Client{Transport: carrier}
	}
	if v := mcp.ParseVersion(env("MCP_CONFORMANCE_PROTOCOL_VERSION")); v != 0 {
		o.Client.Versions = []mcp.Version{v}
	}
	if s.Client, err = mcphttp.Connect(ctx, address, mcp.Implementation{Name: "everything-client", Version: "1.0.0"}, o); err != nil {
		return err
	}
	err = play(ctx, &s)
	return errors.Join(err, s.Close())
}

// options returns options that declare all capabilities of the client, and handle all requests.
func options(log io.Writer) mcp.ClientOptions {
	return mcp.ClientOptions{
		Roots: func(context.Context) ([]mcp.Root, error) { return []mcp.Root{{URI: "file:///work", Name: "work"}}, nil },
		Sample: func(context.Context, *mcp.SamplingRequest) (*mcp.SamplingResult, error) {
			return &mcp.SamplingResult{Role: mcp.RoleAssistant, Model: "none", StopReason: "endTurn",
				Content: mcp.Blocks{mcp.Text("This is an answer.")}}, nil
		},
		Elicit: func(_ context.Context, e *mcp.Elicitation) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: mcp.ActionAccept, Content: answerTo(e)}, nil
		},
		Extensions: map[string]mcp.Settings{mcp.ExtensionSkills: {}},
		Report:     func(what string, err error) { fmt.Fprintln(log, "everything-client:", what+":", err) },
	}
}

// answerTo confirms if a form asks for that, and leaves everything else to the defaults.
func answerTo(e *mcp.Elicitation) jsonrpc.Raw {
	if strings.Contains(string(e.RequestedSchema), `"confirmed"`) {
		return jsonrpc.Raw(`{"confirmed":true}`)
	}
	return jsonrpc.Raw(`{}`)
}
