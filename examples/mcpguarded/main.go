// Command mcpguarded is an MCP server for users with a token of one authorization server:
//
//	mcpguarded http://127.0.0.1:9000 127.0.0.1:8080
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/mcp/mcphttp"
	"github.com/da1ed7bb/parley/mcp/oauth"
)

func whoami(ctx context.Context, _ *mcp.Request, _ struct{}) (string, error) {
	i := oauth.IdentityOf(ctx)
	return fmt.Sprintf("%s, who may %s", i.Subject, strings.Join(i.Scopes, ", ")), nil
}

func reset(context.Context, *mcp.Request, struct{}) (string, error) {
	return "Everything is as it was in the beginning.", nil
}

// needs returns the scopes that a request needs in addition to those that all requests need.
func needs(method, name string) []string {
	if method == mcp.MethodToolsCall && name == "admin/reset" {
		return []string{"tools:admin"}
	}
	return nil
}

// newHandler returns the handler of the server at address, for tokens that verify accepts.
func newHandler(address, issuer string, verify oauth.Verifier) (http.Handler, error) {
	s := mcp.NewServer(mcp.Implementation{Name: "guarded", Version: "1.0.0"}, &mcp.ServerOptions{Principal: oauth.PrincipalOf})
	mcp.AddTool(s, mcp.Tool{Name: "whoami", Description: "Says whose token came."}, whoami)
	mcp.AddTool(s, mcp.Tool{Name: "admin/reset", Description: "Resets everything."}, reset)
	return oauth.Protect(mcphttp.NewHandler(s, &mcphttp.Options{Principal: oauth.PrincipalOf}), &oauth.ProtectOptions{
		Resource:  address,
		Servers:   []string{issuer},
		Verify:    verify,
		Required:  []string{"tools:use"},
		Needs:     needs,
		Supported: []string{"tools:use", "tools:admin"},
	})
}

func run(issuer, listen string) error {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", listen)
	if err != nil {
		return err
	}
	address := "http://" + listener.Addr().String() + "/mcp"
	handler, err := newHandler(address, issuer, &oauth.JWT{Issuer: issuer, Audience: address})
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "serving", address)
	return http.Serve(listener, handler)
}

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: mcpguarded ISSUER ADDRESS")
	}
	log.Fatal(run(os.Args[1], os.Args[2]))
}
