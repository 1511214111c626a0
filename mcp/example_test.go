package mcp_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/transport/inproc"
)

func Example() {
	s := mcp.NewServer(mcp.Implementation{Name: "calculator", Version: "1.0"}, nil)
	type operands struct {
		A float64 `json:"a"`
		B float64 `json:"b"`
	}
	type sum struct {
		Sum float64 `json:"sum"`
	}
	mcp.AddTool(s, mcp.Tool{Name: "calculator/add", Description: "Adds two numbers."},
		func(ctx context.Context, r *mcp.Request, in operands) (sum, error) {
			return sum{in.A + in.B}, nil
		})

	// Any transport will do: stdio, a Unix socket, WebSocket. This one stays in the process.
	here, there := inproc.Pipe(nil)
	served := make(chan error)
	go func() { served <- s.Serve(context.Background(), there) }()

	c, err := mcp.Connect(context.Background(), here, mcp.Implementation{Name: "example", Version: "1.0"}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := c.CallTool(context.Background(), "calculator/add", operands{A: 42, B: 23}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Version(), result.Text())
	if err := c.Close(); err != nil {
		fmt.Println(err)
	}
	fmt.Println(<-served)
	// Output:
	// 2026-07-28 {"sum":65}
	// <nil>
}

// A tool that asks the user. The client below uses the modern era: the question is the result of a
// first call, and the tool runs twice. With an older client, the same code sends a request and
// waits.
func ExampleRequest_Elicit() {
	s := mcp.NewServer(mcp.Implementation{Name: "restaurant", Version: "1.0"}, nil)
	defer s.Close()
	type form struct {
		Guests int    `json:"guests" mcp:"title=How many,min=1,max=12"`
		Window string `json:"window" mcp:"enum=yes|no,default=no"`
	}
	mcp.AddTool(s, mcp.Tool{Name: "book-table", Description: "Books a table."},
		func(ctx context.Context, r *mcp.Request, _ struct{}) (string, error) {
			answer, err := r.Elicit(ctx, "table", &mcp.Elicitation{Message: "Which table?", RequestedSchema: mcp.FormOf[form]()})
			if err != nil {
				return "", err
			}
			var table form
			if !answer.Accepted(&table) {
				return "Nothing was booked.", nil
			}
			return fmt.Sprintf("A table for %d, at the window: %s.", table.Guests, table.Window), nil
		})

	c, err := mcp.ConnectLocal(context.Background(), s, mcp.Implementation{Name: "example", Version: "1.0"}, &mcp.ClientOptions{
		Elicit: func(_ context.Context, e *mcp.Elicitation) (*mcp.ElicitResult, error) {
			fmt.Println(e.Message)
			return &mcp.ElicitResult{Action: mcp.ActionAccept, Content: jsonrpc.Raw(`{"guests":4}`)}, nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	result, err := c.CallTool(context.Background(), "book-table", nil, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Text())
	// Output:
	// Which table?
	// A table for 4, at the window: no.
}

// A tool with schemas from another source and raw arguments.
func ExampleServer_AddTool() {
	s := mcp.NewServer(mcp.Implementation{Name: "gateway", Version: "1.0"}, nil)
	defer s.Close()
	echo := func(_ context.Context, r *mcp.Request) (*mcp.ToolResult, error) {
		return mcp.TextResult(string(r.Arguments)), nil
	}
	err := s.AddTool(mcp.Tool{Name: "echo", InputSchema: jsonrpc.Raw(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`)}, echo)
	fmt.Println(err)
	err = s.AddTool(mcp.Tool{Name: "wrong", InputSchema: jsonrpc.Raw(`{"type":"array"}`)}, echo)
	fmt.Println(err)

	c, err := mcp.ConnectLocal(context.Background(), s, mcp.Implementation{Name: "example", Version: "1.0"}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	for _, arguments := range []string{`{"n":9007199254740993}`, `{"n":"many"}`} {
		result, err := c.CallTool(context.Background(), "echo", jsonrpc.Raw(arguments), nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(result.IsError, result.Text())
	}
	// Output:
	// <nil>
	// mcp: tool "wrong": input schema: type must be object
	// false {"n":9007199254740993}
	// true arguments: at /n: must be an integer, not a string
}

// A client that receives notifications about changes, in either era.
func ExampleClient_Listen() {
	s := mcp.NewServer(mcp.Implementation{Name: "news", Version: "1.0"}, nil)
	defer s.Close()
	headline := "Nothing new"
	if err := s.AddResource(mcp.Resource{URI: "news://today", Name: "today"}, func(_ context.Context, r *mcp.Request) (*mcp.ReadResourceResult, error) {
		return mcp.TextResource(r, "text/plain", headline), nil
	}); err != nil {
		fmt.Println(err)
		return
	}
	c, err := mcp.ConnectLocal(context.Background(), s, mcp.Implementation{Name: "example", Version: "1.0"}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	enough := errors.New("heard enough")
	err = c.Listen(context.Background(), mcp.Filter{ResourceSubscriptions: []string{"news://today"}}, func(ch mcp.Change) error {
		if ch.Method == mcp.NotifyAcknowledged {
			headline = "A quiet day"
			s.ResourceUpdated("news://today")
			return nil
		}
		read, err := c.ReadResource(context.Background(), ch.URI, nil)
		if err != nil {
			return err
		}
		fmt.Println(ch.URI, read.Contents[0].Text)
		return enough
	})
	fmt.Println(err)
	// Output:
	// news://today A quiet day
	// heard enough
}
