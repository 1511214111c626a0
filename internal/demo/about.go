package demo

import (
	"context"
	"errors"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// The service about shows the conversation itself: who the client is, and a clock that ticks for whoever listens.

// A portrait is what about/client answers: the client as this server sees it.
type portrait struct {
	Version      string      `json:"version" jsonschema:"the revision of MCP that this call is in"`
	Session      bool        `json:"session" jsonschema:"whether the call belongs to a conversation with a handshake"`
	Name         string      `json:"name" jsonschema:"how the client presents itself"`
	Release      string      `json:"release" jsonschema:"its version, as it says"`
	Capabilities jsonrpc.Raw `json:"capabilities" jsonschema:"what it can be asked, as it declared it"`
	Roots        []string    `json:"roots,omitzero" jsonschema:"what it works on, if it says"`
}

var portraitSchema = jsonrpc.Raw(`{"type":"object","properties":{` +
	`"version":{"type":"string","description":"the revision of MCP that this call is in"},` +
	`"session":{"type":"boolean","description":"whether the call belongs to a conversation with a handshake"},` +
	`"name":{"type":"string","description":"how the client presents itself"},` +
	`"release":{"type":"string","description":"its version, as it says"},` +
	`"capabilities":{"type":"object","description":"what it can be asked, as it declared it"},` +
	`"roots":{"type":"array","items":{"type":"string"},"description":"the folders it works on, if it says"}},` +
	`"required":["version","session","name","release","capabilities"],"additionalProperties":false}`)

// clockURI is the resource that changes by itself.
const clockURI = "clock://now"

// tickTime is how often subscribers of the clock are told that it has moved on.
const tickTime = time.Second

func addAbout(s *mcp.Server) error {
	mcp.AddTool(s, mcp.Tool{
		Name:  "about/client",
		Title: "Who is asking",
		Description: "Describes the client as this server sees it: the revision that is spoken, its name, what it can be asked, and what it works on. " +
			"The quickest way to find out what a host supports.",
		OutputSchema: portraitSchema,
		Annotations:  readsOnly(),
	}, describeClient)
	return s.AddResource(mcp.Resource{
		URI: clockURI, Name: "clock", Title: "Clock", MIMEType: "text/plain",
		Description: "The time of the server. Subscribers are told every second that it has changed.",
		Annotations: &mcp.Annotations{Audience: []mcp.Role{mcp.RoleUser}},
	}, func(_ context.Context, r *mcp.Request) (*mcp.ReadResourceResult, error) {
		return mcp.TextResource(r, "text/plain", time.Now().Format(time.RFC3339)), nil
	})
}

func describeClient(ctx context.Context, r *mcp.Request, _ struct{}) (*portrait, error) {
	client := r.Client()
	p := &portrait{Version: r.Version().String(), Session: r.Session() != nil, Name: client.Name, Release: client.Version}
	caps, err := encodeRaw(r.Capabilities())
	if err != nil {
		return nil, err
	}
	p.Capabilities = caps
	roots, err := r.Roots(ctx, "roots")
	if _, ok := errors.AsType[*mcp.CapabilityError](err); ok {
		return p, nil
	}
	if err != nil {
		return nil, err
	}
	for _, root := range roots {
		p.Roots = append(p.Roots, root.URI)
	}
	return p, nil
}
