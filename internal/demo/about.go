package demo

import (
	"context"
	"errors"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// The service about shows the connection itself: the client's identity, and a clock that notifies
// its subscribers.

// A portrait is the result of about/client: the client as this server sees it.
type portrait struct {
	Version      string      `json:"version" jsonschema:"the MCP version of this call"`
	Session      bool        `json:"session" jsonschema:"whether the call belongs to a session with a handshake"`
	Name         string      `json:"name" jsonschema:"the name of the client"`
	Release      string      `json:"release" jsonschema:"the version of the client"`
	Capabilities jsonrpc.Raw `json:"capabilities" jsonschema:"the capabilities that the client declared"`
	Roots        []string    `json:"roots,omitzero" jsonschema:"the roots of the client, if it has any"`
}

var portraitSchema = jsonrpc.Raw(`{"type":"object","properties":{` +
	`"version":{"type":"string","description":"the MCP version of this call"},` +
	`"session":{"type":"boolean","description":"whether the call belongs to a session with a handshake"},` +
	`"name":{"type":"string","description":"the name of the client"},` +
	`"release":{"type":"string","description":"the version of the client"},` +
	`"capabilities":{"type":"object","description":"the capabilities that the client declared"},` +
	`"roots":{"type":"array","items":{"type":"string"},"description":"the roots of the client, if it has any"}},` +
	`"required":["version","session","name","release","capabilities"],"additionalProperties":false}`)

// clockURI is the URI of the resource that changes periodically.
const clockURI = "clock://now"

// tickTime is the interval at which subscribers of the clock are notified.
const tickTime = time.Second

func addAbout(s *mcp.Server) error {
	mcp.AddTool(s, mcp.Tool{
		Name:  "about/client",
		Title: "About the client",
		Description: "Describes the client as this server sees it: the MCP version in use, its name, its capabilities and its roots. " +
			"Use it to check what a host supports.",
		OutputSchema: portraitSchema,
		Annotations:  readsOnly(),
	}, describeClient)
	return s.AddResource(mcp.Resource{
		URI: clockURI, Name: "clock", Title: "Clock", MIMEType: "text/plain",
		Description: "The time of the server. Subscribers get a notification every second.",
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
