package block_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/agent/agenttest"
	"github.com/da1ed7bb/parley/agent/internal/block"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// A part is unchanged after Write and Read.
func TestThereAndBack(t *testing.T) {
	parts := append(agenttest.Parts(),
		agent.Part{Data: []byte{}, MediaType: "application/octet-stream", Filename: "empty.bin"},
		agent.Part{JSON: jsonrpc.Raw(`"x"`), MediaType: "application/problem+json", Name: "why"},
		// Text that looks like JSON remains text.
		agent.Part{Text: "{}", MediaType: "application/json"},
		agent.Part{URL: "file:///a", Name: "a", Filename: "b"},
		agent.Part{Text: "x", Metadata: agent.Metadata{}.With("mcp/annotations", map[string]float64{"priority": 0.5}).With("mcp/meta/a", 1).With("other", 2)},
	)
	for _, p := range parts {
		b := block.Write("mcp", p)
		if diff := cmp.Diff(p, block.Read("mcp", &b)); diff != "" {
			t.Errorf("%+v as %s (-want +got):\n%s", p, b.Kind, diff)
		}
	}
}

// Blocks of other implementations: data that a part has no field for is in its metadata, under the
// name of each protocol.
func TestBlocksOfOthers(t *testing.T) {
	one := map[string]jsonrpc.Raw{"a": jsonrpc.Raw("1")}
	for _, c := range []struct {
		name string
		in   block.Block
		want agent.Part
	}{
		{"text", block.Block{Kind: block.Text, Text: "x", Meta: one, Annotations: jsonrpc.Raw(`{"priority":1}`)},
			agent.Part{Text: "x", Metadata: agent.Metadata{"editor/meta/a": one["a"], "editor/annotations": jsonrpc.Raw(`{"priority":1}`)}}},
		{"a picture that stands elsewhere too", block.Block{Kind: block.Image, Data: []byte{1}, MIMEType: "image/png", URI: "file:///p"},
			agent.Part{Data: []byte{1}, MediaType: "image/png", Metadata: agent.Metadata{"editor/resource": jsonrpc.Raw(`{"uri":"file:///p"}`)}}},
		{"a link", block.Block{Kind: block.Link, Name: "file:///a", URI: "file:///a", MIMEType: "text/x-go"}, agent.Part{URL: "file:///a", MediaType: "text/x-go"}},
		{"a link with a name", block.Block{Kind: block.Link, Name: "A", URI: "file:///a"},
			agent.Part{URL: "file:///a", Metadata: agent.Metadata{"editor/link": jsonrpc.Raw(`{"name":"A","uri":"file:///a"}`)}}},
		{"a link that says more", block.Block{Kind: block.Link, Name: "A", URI: "file:///a", WholeLink: jsonrpc.Raw(`{"title":"T"}`)},
			agent.Part{URL: "file:///a", Metadata: agent.Metadata{"editor/link": jsonrpc.Raw(`{"title":"T"}`)}}},
		{"text of a file", block.Block{Kind: block.Resource, URI: "file:///a", MIMEType: "text/x-go", Text: "package a", ResourceMeta: one},
			agent.Part{Text: "package a", MediaType: "text/x-go", Metadata: agent.Metadata{"editor/resource": jsonrpc.Raw(`{"uri":"file:///a","mimeType":"text/x-go","_meta":{"a":1}}`)}}},
		{"JSON", block.Block{Kind: block.Resource, URI: "x:j", MIMEType: "application/json", Text: "[1]"},
			agent.Part{JSON: jsonrpc.Raw("[1]"), Metadata: agent.Metadata{"editor/resource": jsonrpc.Raw(`{"uri":"x:j","mimeType":"application/json"}`)}}},
		{"no JSON", block.Block{Kind: block.Resource, URI: "x:j", MIMEType: "application/json", Text: "[1"},
			agent.Part{Text: "[1", MediaType: "application/json", Metadata: agent.Metadata{"editor/resource": jsonrpc.Raw(`{"uri":"x:j","mimeType":"application/json"}`)}}},
		{"bytes", block.Block{Kind: block.Resource, URI: "x:b", Data: []byte{}},
			agent.Part{Data: []byte{}, Metadata: agent.Metadata{"editor/resource": jsonrpc.Raw(`{"uri":"x:b"}`)}}},
		{"a kind from elsewhere", block.Block{Kind: "dance", Meta: one}, agent.Part{Metadata: agent.Metadata{"editor/meta/a": one["a"]}}},
	} {
		if diff := cmp.Diff(c.want, block.Read("editor", &c.in)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}
