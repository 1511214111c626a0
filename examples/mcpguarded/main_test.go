package main

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"

	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/mcp/mcphttp"
	"github.com/da1ed7bb/parley/mcp/oauth"
)

// tokens replaces an authorization server: two people have one token each.
var tokens = oauth.VerifierFunc(func(_ context.Context, token string) (*oauth.Identity, error) {
	switch token {
	case "of-ada":
		return &oauth.Identity{Issuer: "https://login.example", Subject: "Ada", Scopes: []string{"tools:use", "tools:admin"}}, nil
	case "of-bob":
		return &oauth.Identity{Issuer: "https://login.example", Subject: "Bob", Scopes: []string{"tools:use"}}, nil
	}
	return nil, oauth.ErrToken
})

func Example() {
	server := httptest.NewUnstartedServer(nil)
	address := "http://" + server.Listener.Addr().String() + "/mcp"
	handler, err := newHandler(address, "https://login.example", tokens)
	if err != nil {
		fmt.Println(err)
		return
	}
	server.Config.Handler = handler
	server.Start()
	defer server.Close()

	resp, err := server.Client().Post(address, "application/json", strings.NewReader("{}"))
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	fmt.Println(resp.Status)
	fmt.Println(strings.ReplaceAll(resp.Header.Get("WWW-Authenticate"), server.URL, ""))
	for _, token := range []string{"of-bob", "of-ada"} {
		c, err := mcphttp.Connect(context.Background(), address, mcp.Implementation{Name: "example", Version: "1.0"}, &mcphttp.ClientOptions{Token: token})
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, tool := range []string{"whoami", "admin/reset"} {
			result, err := c.CallTool(context.Background(), tool, nil, nil)
			if err != nil {
				fmt.Println(tool+":", "refused")
				continue
			}
			fmt.Println(tool+":", result.Text())
		}
		_ = c.Close()
	}
	// Output:
	// 401 Unauthorized
	// Bearer resource_metadata="/.well-known/oauth-protected-resource/mcp", scope="tools:use"
	// whoami: Bob, who may tools:use
	// admin/reset: refused
	// whoami: Ada, who may tools:use, tools:admin
	// admin/reset: Everything is as it was in the beginning.
}
