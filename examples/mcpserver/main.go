// Command mcpserver is an MCP server that stores notes in memory: on stdin and stdout, or over HTTP
// if it is given an address.
//
//	mcpserver
//	mcpserver 127.0.0.1:8080
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"

	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/mcp/mcphttp"
	"github.com/da1ed7bb/parley/transport/stdio"
)

type note struct {
	Text  string   `json:"text" jsonschema:"what to remember"`
	Topic string   `json:"topic,omitzero" jsonschema:"what it is about" mcp:"enum=home|work,default=home"`
	Tags  []string `json:"tags,omitzero" jsonschema:"words to find it by"`
}

type receipt struct {
	Number int `json:"number" jsonschema:"the number of the note, from 1 on"`
}

type notebook struct {
	mu    sync.Mutex
	notes []note
}

func (n *notebook) add(_ context.Context, r *mcp.Request, in note) (receipt, error) {
	if strings.TrimSpace(in.Text) == "" {
		return receipt{}, mcp.Errorf("An empty note reminds of nothing: give it a text.")
	}
	n.mu.Lock()
	n.notes = append(n.notes, in)
	number := len(n.notes)
	n.mu.Unlock()
	r.Server().ResourceUpdated("notes://all")
	return receipt{number}, nil
}

type sure struct {
	Really bool `json:"really" mcp:"title=Throw all notes away"`
}

func (n *notebook) clear(ctx context.Context, r *mcp.Request, _ struct{}) (string, error) {
	answer, err := r.Elicit(ctx, "sure", &mcp.Elicitation{
		Message:         "This cannot be undone.",
		RequestedSchema: mcp.FormOf[sure](),
	})
	if err != nil {
		return "", err
	}
	var form sure
	if !answer.Accepted(&form) || !form.Really {
		return "All notes are still there.", nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.notes = nil
	r.Server().ResourceUpdated("notes://all")
	return "All notes are gone.", nil
}

func (n *notebook) read(_ context.Context, r *mcp.Request) (*mcp.ReadResourceResult, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var b strings.Builder
	for i, one := range n.notes {
		fmt.Fprintf(&b, "%d. %s\n", i+1, one.Text)
	}
	return mcp.TextResource(r, "text/plain", b.String()), nil
}

func newServer() (*mcp.Server, error) {
	var n notebook
	s := mcp.NewServer(mcp.Implementation{Name: "notes", Title: "Notes", Version: "1.0.0"}, nil)
	mcp.AddTool(s, mcp.Tool{Name: "notes/add", Title: "Add a note", Description: "Remembers a note."}, n.add)
	mcp.AddTool(s, mcp.Tool{Name: "notes/clear", Title: "Clear", Description: "Throws all notes away, after asking the user."}, n.clear)
	err := s.AddResource(mcp.Resource{URI: "notes://all", Name: "all", Title: "All notes", MIMEType: "text/plain"}, n.read)
	return s, err
}

func serveHTTP(s *mcp.Server, address string) error {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", address)
	if err != nil {
		return err
	}
	log.Printf("MCP is at http://%s/mcp", l.Addr())
	http.Handle("/mcp", mcphttp.NewHandler(s, nil))
	return http.Serve(l, nil)
}

func main() {
	s, err := newServer()
	if err != nil {
		log.Fatal(err)
	}
	if len(os.Args) == 1 {
		err = s.Serve(context.Background(), stdio.New(nil))
	} else {
		err = serveHTTP(s, os.Args[1])
	}
	if err != nil {
		log.Fatal(err)
	}
}
