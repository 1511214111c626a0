package parley_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Reasons why a goroutine needs no recovery of its own.
const (
	cancels  = "it only ends a context, closes a channel, or waits"
	ofOurs   = "it calls no function of a user"
	inside   = "what it calls recovers panics of users' functions itself"
	ofStdlib = "net, os and net/http do the work"
)

// unrescued lists the goroutines and timers of the module that are started without package rescue,
// by the file and the function that starts them, with the reason.
var unrescued = map[string]string{
	"a2a/a2ahttp/link.go begin":                         cancels,
	"a2a/client.go Connect":                             inside,
	"a2a/server.go ServeConn":                           cancels,
	"acp/acphttp/client.go do":                          cancels,
	"acp/client.go Connect":                             inside,
	"acp/local.go Do":                                   cancels,
	"agent/editoragent/serve.go startWork":              inside,
	"agent/editoragent/serve.go prompt":                 cancels,
	"agent/link.go cancels":                             cancels,
	"agent/mcpagent/serve.go startWork":                 inside,
	"agent/mcpagent/serve.go call":                      cancels,
	"agent/mcpagent/serve.go park":                      cancels,
	"auth.go admit":                                     inside,
	"auth.go lock":                                      inside,
	"auth.go refuse":                                    inside,
	"capture/recorder.go New":                           inside,
	"capture/tap/child.go Run":                          ofStdlib,
	"capture/tap/relay.go Serve":                        inside,
	"capture/tap/relay.go serve":                        ofStdlib,
	"capture/tap/child.go awaitOutputs":                 cancels,
	"internal/x/grace/grace.go After":                   cancels,
	"transport/sse/dial.go send":                        cancels,
	"connset.go shutdown":                               inside,
	"editor/client.go Connect":                          inside,
	"editor/clientask.go duringTurn":                    cancels,
	"editor/clientturn.go Prompt":                       inside,
	"gateway/pass.go RoundTrip":                         cancels,
	"gateway/pass.go ServeHTTP":                         cancels,
	"gateway/mcplink.go open":                           cancels,
	"gateway/outbound.go fetch":                         inside,
	"gateway/relay.go start":                            cancels,
	"internal/bridge/client.go call":                    cancels,
	"internal/x/grace/grace.go Wait":                    cancels,
	"internal/x/guard/watch.go begin":                   ofStdlib,
	"internal/x/proc/book_unix.go cleanBook":            ofStdlib,
	"internal/x/proc/book_unix.go writeLocked":          ofOurs,
	"internal/x/proc/guard_unix.go startLocked":         ofOurs,
	"internal/x/proc/proc.go Start":                     ofStdlib,
	"jsonrpc/ask.go reserve":                            ofOurs,
	"jsonrpc/batch.go giveUp":                           ofOurs,
	"jsonrpc/batch.go run":                              inside,
	"jsonrpc/conn.go Start":                             inside,
	"jsonrpc/conn.go open":                              inside,
	"jsonrpc/conn.go cutIfStuck":                        inside,
	"jsonrpc/lane.go arm":                               ofOurs,
	"jsonrpc/lane.go mayNow":                            inside,
	"jsonrpc/lane.go wake":                              inside,
	"jsonrpc/outbox.go now":                             inside,
	"jsonrpc/outbox.go spawn":                           inside,
	"jsonrpc/outbox.go readByPeer":                      inside,
	"jsonrpc/running.go admitMember":                    inside,
	"limit.go refuse":                                   ofStdlib,
	"mcp/client.go Connect":                             inside,
	"mcp/clientask.go answerAll":                        inside,
	"mcp/clienthost.go start":                           inside,
	"mcp/local.go Do":                                   cancels,
	"mcp/mcphttp/server.go Shutdown":                    inside,
	"mcp/oauth/loopback.go Begin":                       ofStdlib,
	"mcp/oauth/protect.go within":                       cancels,
	"mcp/oauth/trip.go run":                             cancels,
	"mcp/oauth/trip.go travel":                          inside,
	"mcp/tasks.go await":                                cancels,
	"orchestrator/callback.go ask":                      cancels,
	"orchestrator/clock.go runLocked":                   cancels,
	"orchestrator/dial.go Dial":                         inside,
	"orchestrator/group.go branches":                    inside,
	"orchestrator/team.go Survey":                       inside,
	"orchestrator/way.go use":                           inside,
	"playground/agents.go agentsRun":                    cancels,
	"playground/follow.go follow":                       ofOurs,
	"playground/lesson.go awaitRows":                    cancels,
	"playground/link.go run":                            ofOurs,
	"playground/link.go start":                          inside,
	"playground/oauth.go oauthStart":                    cancels,
	"playground/open.go openTarget":                     ofOurs,
	"playground/playground.go Close":                    ofOurs,
	"playground/playground.go New":                      inside,
	"playground/post.go listen":                         ofOurs,
	"playground/post.go send":                           ofOurs,
	"playground/question.go respond":                    ofOurs,
	"playground/record.go newStreamTap":                 ofOurs,
	"playground/session.go keep":                        inside,
	"store/sqlite/sqlite.go Open":                       inside,
	"streams.go Serve":                                  inside,
	"transport/httprpc/client.go begin":                 cancels,
	"transport/httprpc/inbox.go leave":                  ofStdlib,
	"transport/socket/listen.go refuseConn":             ofStdlib,
	"transport/sse/dial.go Dial":                        cancels,
	"transport/stdio/child.go Close":                    ofStdlib,
	"transport/stdio/child.go Start":                    inside,
	"transport/stdio/child.go watch":                    inside,
	"transport/stdio/journal.go dropLines":              ofOurs,
	"transport/stdio/stdio.go Read":                     ofStdlib,
	"transport/streamable/clientcall.go begin":          cancels,
	"transport/streamable/clientstream.go readStream":   ofStdlib,
	"transport/streamable/session.go Shutdown":          inside,
	"transport/streamable/session.go endAll":            inside,
	"transport/streamable/session.go publishLocked":     inside,
	"transport/websocket/close.go startHandshakeLocked": ofStdlib,
	"transport/websocket/close.go startCloseLocked":     ofStdlib,
	"transport/websocket/close.go runHandshake":         ofStdlib,
	"transport/websocket/dial.go Dial":                  ofStdlib,
	"transport/websocket/keepalive.go keepAlive":        ofStdlib,
	"transport/websocket/write.go queueLocked":          ofStdlib,
	"auth.go untilExpiry":                               cancels,
	"web.go Shutdown":                                   inside,
	"web.go ofCaller":                                   inside,
	"web.go serveUpgrade":                               inside,
}

// noUsers are folders whose functions belong to one program, or to tests: there are no users'
// functions that could panic.
var noUsers = []string{"cmd/", "examples/", "internal/demo", "internal/lessons", "store/storetest", "agent/agenttest", "transport/transporttest", "gateway/gatetest"}

// TestGoroutinesRecover: whatever starts a goroutine or a timer recovers the panics of users'
// functions on it, or is listed with the reason why it need not.
func TestGoroutinesRecover(t *testing.T) {
	found := map[string]bool{}
	started := 0
	all := goFiles(t)
	for _, folder := range slices.Sorted(maps.Keys(all)) {
		if slices.ContainsFunc(noUsers, func(p string) bool { return strings.HasPrefix(folder+"/", p) }) {
			continue
		}
		fset := token.NewFileSet()
		files := map[string]*ast.File{}
		bodies := map[string][]ast.Node{} // of the package's functions, by their name
		for _, name := range all[folder] {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			files[name] = file
			for _, d := range file.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
					bodies[f.Name.Name] = append(bodies[f.Name.Name], f.Body)
				}
			}
		}
		for name, file := range files {
			for _, d := range file.Decls {
				f, ok := d.(*ast.FuncDecl)
				if !ok || f.Body == nil {
					continue
				}
				for _, run := range starts(f.Body) {
					started++
					if rescued(run, bodies) {
						continue
					}
					key := filepath.ToSlash(name) + " " + f.Name.Name
					found[key] = true
					if unrescued[key] == "" {
						t.Errorf("%s: %s starts a goroutine without package rescue, and is not in the list", fset.Position(run.Pos()), key)
					}
				}
			}
		}
	}
	for key := range unrescued {
		if !found[key] {
			t.Errorf("%s is in the list, and starts nothing without package rescue", key)
		}
	}
	if started < 100 {
		t.Errorf("found %d places that start a goroutine", started)
	}
}

// starts returns the functions that body runs on other goroutines: of go statements, of AfterFunc,
// and of sync.WaitGroup.Go.
func starts(body ast.Node) (functions []ast.Expr) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			functions = append(functions, n.Call.Fun)
		case *ast.CallExpr:
			s, ok := n.Fun.(*ast.SelectorExpr)
			switch {
			case !ok:
			case s.Sel.Name == "AfterFunc" && len(n.Args) == 2:
				functions = append(functions, n.Args[1])
			case s.Sel.Name == "Go" && len(n.Args) == 1:
				functions = append(functions, n.Args[0])
			}
		}
		return true
	})
	return functions
}

// rescued reports whether a function, or one of the package with its name, uses package rescue.
func rescued(f ast.Expr, bodies map[string][]ast.Node) bool {
	switch f := f.(type) {
	case *ast.FuncLit:
		return usesRescue(f)
	case *ast.Ident:
		return slices.ContainsFunc(bodies[f.Name], usesRescue)
	case *ast.SelectorExpr:
		return len(bodies[f.Sel.Name]) == 1 && usesRescue(bodies[f.Sel.Name][0])
	}
	return false
}

func usesRescue(n ast.Node) (uses bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == "rescue" {
				uses = true
			}
		}
		return !uses
	})
	return uses
}

// recovers lists the files that may call recover.
var recovers = []string{
	"internal/x/report/report.go",   // a Report function, and a slog.Handler
	"internal/x/rescue/rescue.go",   // everything else
	"jsonrpc/answer.go",             // handlers: the reference of the panic is in the response
	"jsonrpc/conn.go",               // by rescue.Caught, without a closure for each connection
	"jsonrpc/middleware/recover.go", // it is its purpose
	"jsonrpc/outbox.go",             // by rescue.Caught, without a closure for each write
	"a2a/run.go",                    // an agent
	"acp/run.go",                    // an agent
	"agent/run.go",                  // an agent
	"mcp/clientask.go",              // a question
	"mcp/tasks.go",                  // a tool
}

// TestOnePlaceRecovers: no other file calls recover.
func TestOnePlaceRecovers(t *testing.T) {
	for _, names := range goFiles(t) {
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") || slices.Contains(recovers, filepath.ToSlash(name)) {
				continue
			}
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if c, ok := n.(*ast.CallExpr); ok {
					if f, ok := c.Fun.(*ast.Ident); ok && f.Name == "recover" {
						t.Errorf("%s: recover belongs to package rescue", fset.Position(c.Pos()))
					}
				}
				return true
			})
		}
	}
}
