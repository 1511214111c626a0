package lessons

import (
	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/playground"
)

func progress() playground.Lesson {
	return playground.Lesson{
		ID: "progress", Title: "Progress", Target: demo,
		Text: []string{
			"A request yields any number of notifications and then exactly one response. Progress, logs and streamed text are such notifications.",
			"JSON-RPC does not connect notifications to requests. The protocols on top of it do, with a member in params.",
		},
		Steps: []playground.Step{
			{ID: "count", Title: "Count down", Hint: "Three steps, then the result. Over HTTP the response becomes an event stream.",
				Draft:    `{"jsonrpc": "2.0", "id": 1, "method": "countdown", "params": {"from": 3, "interval_ms": 300}}`,
				Way:      `{"jsonrpc": "2.0", "id": 1, "method": "countdown", "params": {"from": 3, "interval_ms": 300}}`,
				Terminal: playground.TerminalStep{Command: "call @demo countdown from:=3 interval_ms:=300 --stream"},
				Check:    all(sent(capture.RowRequest), method("countdown"))},
			{ID: "ticks", Title: "See the steps", Hint: "Unfold the call: each step is a row below it, with its time.",
				Terminal: playground.TerminalStep{Hint: "Each step is a notification. With --stream it is printed when it arrives."},
				Check:    all(got(capture.RowNotification), method("countdown/tick"))},
			{ID: "result", Title: "See the result", Check: all(sent(capture.RowRequest), method("countdown"), done)},
		},
		Notes: []playground.Note{{Title: "How does MCP do it?", Text: "The request has a progressToken in params._meta, and each notifications/progress names it."}},
	}
}

func cancellation() playground.Lesson {
	return playground.Lesson{
		ID: "cancellation", Title: "Cancellation", Target: duplex,
		Text: []string{
			"JSON-RPC has no message for cancellation. Each protocol has its own: `$/cancelRequest` in LSP, `notifications/cancelled` in MCP.",
			"It is a notification that names the request. If it arrives too late, the request has already finished.",
		},
		Steps: []playground.Step{
			{ID: "begin", Title: "Start a long request", Hint: "Sleep for ten seconds.",
				Draft:    `{"jsonrpc": "2.0", "id": "long", "method": "sleep", "params": [10000]}`,
				Way:      `{"jsonrpc": "2.0", "id": "long", "method": "sleep", "params": [10000]}`,
				Terminal: playground.TerminalStep{Command: "repl @demo-tcp", Input: "sleep 10000 &\n.notify $/cancelRequest id:=1\n", Hint: "Sleep for ten seconds, and do not wait for the response (&). The second line cancels the request with ID 1."},
				Check:    all(sent(capture.RowRequest), method("sleep"))},
			{ID: "cancel", Title: "Cancel it", Hint: "Use Cancel in the row, or write the message yourself.",
				Way:      `{"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": "long"}}`,
				Terminal: playground.TerminalStep{Hint: "A notification that names the request."},
				Check:    all(sent(capture.RowNotification), method("$/cancelRequest"))},
			{ID: "answer", Label: "-32800", Title: "It still gets a response", Hint: "The response is the error \"cancelled\". In MCP there is no response.",
				Check: all(method("sleep"), failed(-32800))},
		},
		Notes: []playground.Note{{Title: "What about plain HTTP?", Text: "The client closes the HTTP request. There is no message and no response."}},
	}
}

func sessions() playground.Lesson {
	return playground.Lesson{
		ID: "sessions", Title: "State without sessions", Target: demo,
		Text: []string{
			"JSON-RPC has no state between requests. A request that needs state names it in params.",
			"`login` returns a token. A request with the token is from the same user, on any connection and any transport.",
		},
		Steps: []playground.Step{
			{ID: "login", Title: "Log in", Hint: "Use any name.",
				Draft:    `{"jsonrpc": "2.0", "id": 1, "method": "login", "params": ["ada"]}`,
				Way:      `{"jsonrpc": "2.0", "id": 1, "method": "login", "params": ["ada"]}`,
				Terminal: playground.TerminalStep{Command: "call @demo login ada"}, Keep: map[string]string{"TOKEN": "token"},
				Check: all(sent(capture.RowRequest), method("login"), done)},
			{ID: "whoami", Title: "Use the token", Hint: "Send the call in the member next of the response.",
				Way:      `{"jsonrpc": "2.0", "id": 2, "method": "whoami", "params": ["TOKEN"]}`,
				Terminal: playground.TerminalStep{Command: "call @demo whoami TOKEN"},
				Check:    all(sent(capture.RowRequest), method("whoami"), done)},
			{ID: "count", Title: "Change the state", Hint: "Call counter twice with the token.",
				Way:      `{"jsonrpc": "2.0", "id": 3, "method": "counter", "params": ["TOKEN"]}`,
				Terminal: playground.TerminalStep{Command: "call @demo counter TOKEN", Hint: "counter counts the calls with this token."},
				Check:    all(sent(capture.RowRequest), method("counter"), done)},
			{ID: "stranger", Title: "Use an unknown token", Hint: "Call whoami with a token that does not exist.",
				Way:      `{"jsonrpc": "2.0", "id": 4, "method": "whoami", "params": ["nobody"]}`,
				Terminal: playground.TerminalStep{Command: "call @demo whoami unknown"},
				Check: all(sent(capture.RowRequest), method("whoami"), func(_ *playground.Scene, r *capture.Row) bool {
					return r.State == capture.StateFailed
				})},
		},
		Notes: []playground.Note{{Title: "Why does the page hide the token?", Text: "Values with the name of a secret are not recorded. The composer still has what you typed, and the member next shows the token because it protects nothing."}},
	}
}

func handshake() playground.Lesson {
	return playground.Lesson{
		ID: "mcp", Title: "MCP, the handshake", Target: table, Protocol: playground.ProtocolMCP,
		Text: []string{
			"The Model Context Protocol is JSON-RPC with defined methods. Up to 2025-11-25 a session begins with `initialize`, which negotiates the version and the capabilities.",
			"Over HTTP the response has the header `Mcp-Session-Id`, and every later request repeats it.",
		},
		Steps: []playground.Step{
			{ID: "initialize", Title: "Initialize", Hint: "Opening the target sends it. You can also send it yourself.",
				Draft:    `{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "me", "version": "1"}}}`,
				Way:      `{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "me", "version": "1"}}}`,
				Terminal: playground.TerminalStep{Command: "mcp tools @table --protocol 2025-11-25", Hint: "Each MCP command begins with it if the server is older than 2026-07-28, or if --protocol selects an older version."},
				Check:    all(sent(capture.RowRequest), method(mcp.MethodInitialize), done)},
			{ID: "initialized", Title: "Confirm", Hint: "A notification. From now on the server may send requests.",
				Way:   `{"jsonrpc": "2.0", "method": "notifications/initialized"}`,
				Check: all(sent(capture.RowNotification), method(mcp.NotifyInitialized))},
			{ID: "list", Title: "List the tools", Hint: "tools/list. Each tool has a JSON Schema for its arguments; the form is generated from it.",
				Way:      `{"jsonrpc": "2.0", "id": 2, "method": "tools/list"}`,
				Terminal: playground.TerminalStep{Hint: "tools/list. Each tool has a JSON Schema for its arguments."},
				Check:    all(sent(capture.RowRequest), method(mcp.MethodToolsList), done)},
			{ID: "call", Title: "Call a tool", Hint: "Add 2 and 3 with calculator/add.",
				Way:      `{"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "calculator/add", "arguments": {"a": 2, "b": 3}}}`,
				Terminal: playground.TerminalStep{Command: "mcp call @table calculator/add a:=2 b:=3 --protocol 2025-11-25"},
				Check:    all(sent(capture.RowRequest), method(mcp.MethodToolsCall), done)},
		},
		Notes: []playground.Note{{Title: "What if a tool fails?", Text: "The result has isError: true, so that the model can read it. A JSON-RPC error means that the call itself was invalid."}},
	}
}

func modern() playground.Lesson {
	meta := `"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}, "io.modelcontextprotocol/clientInfo": {"name": "me", "version": "1"}}`
	return playground.Lesson{
		ID: "mcp-modern", Title: "MCP, without a handshake", Target: table, Protocol: playground.ProtocolMCP,
		Text: []string{
			"Since 2026-07-28 there is no handshake and no session. Each request has its version and the client's capabilities in `params._meta`.",
			"Any server behind a load balancer can respond. `server/discover` describes the server.",
		},
		Steps: []playground.Step{
			{ID: "discover", Title: "Discover the server", Hint: "The version is in _meta and, over HTTP, also in a header, which the page adds.",
				Draft:    `{"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {` + meta + `}}`,
				Way:      `{"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {` + meta + `}}`,
				Terminal: playground.TerminalStep{Command: "mcp tools @table --protocol 2026-07-28", Hint: "The version is in _meta and, over HTTP, also in a header."},
				Check:    all(sent(capture.RowRequest), method(mcp.MethodDiscover), done)},
			{ID: "list", Title: "List the tools", Hint: "The same method as before, with _meta and without a handshake.",
				Way:   `{"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {` + meta + `}}`,
				Check: all(sent(capture.RowRequest), method(mcp.MethodToolsList), says(mcp.MetaProtocolVersion), done)},
			{ID: "unknown", Title: "Use an unknown version", Hint: "Change the version to 2099-01-01. The error lists the supported versions.",
				Way:      `{"jsonrpc": "2.0", "id": 3, "method": "tools/list", "params": {"_meta": {"io.modelcontextprotocol/protocolVersion": "2099-01-01", "io.modelcontextprotocol/clientCapabilities": {}, "io.modelcontextprotocol/clientInfo": {"name": "me", "version": "1"}}}}`,
				Terminal: playground.TerminalStep{Command: "call @table --raw WAY -H 'MCP-Protocol-Version: 2099-01-01' -H 'Mcp-Method: tools/list'", Hint: "The version is 2099-01-01. The error lists the supported versions."},
				Check: all(sent(capture.RowRequest), says(mcp.MetaProtocolVersion), func(_ *playground.Scene, r *capture.Row) bool {
					return r.State == capture.StateFailed
				})},
		},
		Notes: []playground.Note{{Title: "How does such a server request user input?", Text: "With its response: the result contains the question, and the client sends the request again with the answer."}},
	}
}

func agentRun() playground.Lesson {
	return playground.Lesson{
		ID: "agent", Title: "An agent that asks", Target: scribe, Protocol: playground.ProtocolEditor,
		Text: []string{
			"An agent works in turns: you send a prompt, it streams text, and it may request permission before an action that cannot be undone.",
			"This is the Agent Client Protocol, over stdin and stdout of a child process. You are the editor.",
		},
		Steps: []playground.Step{
			{ID: "session", Title: "Start a session", Hint: "session/new, with the working folder.",
				Draft:    `{"jsonrpc": "2.0", "id": 10, "method": "session/new", "params": {"cwd": "/", "mcpServers": []}}`,
				Way:      `{"jsonrpc": "2.0", "id": 10, "method": "session/new", "params": {"cwd": "/", "mcpServers": []}}`,
				Terminal: playground.TerminalStep{Command: "edit @scribe 'water the plants on Friday' --yes --read-only", Hint: "session/new, with the working folder. `parley edit` is the editor, and --yes grants permission."},
				Check:    all(sent(capture.RowRequest), method("session/new"), done)},
			{ID: "prompt", Title: "Send a prompt", Hint: "session/prompt, with the sessionId of the previous response.",
				Way:   `{"jsonrpc": "2.0", "id": 11, "method": "session/prompt", "params": {"sessionId": "SESSION", "prompt": [{"type": "text", "text": "water the plants on Friday"}]}}`,
				Check: all(sent(capture.RowRequest), method("session/prompt"))},
			{ID: "stream", Title: "Watch the output", Hint: "session/update, one notification for each piece.",
				Check: all(got(capture.RowNotification), method("session/update"))},
			{ID: "permission", Title: "Receive a permission request", Check: all(got(capture.RowRequest), method("session/request_permission"))},
			{ID: "allow", Title: "Allow or reject", Hint: "Press A and choose. Both are valid.",
				Terminal: playground.TerminalStep{Hint: "parley sent it, because of --yes."},
				Check:    all(after("permission"), sent(capture.RowResult))},
			{ID: "end", Title: "The turn ends", Hint: "If it writes a file, confirm it: you are its editor. The response has the stop reason.",
				Terminal: playground.TerminalStep{Hint: "The response has the stop reason. With --read-only the agent sends its note instead of writing a file."},
				Check:    all(sent(capture.RowRequest), method("session/prompt"), done)},
		},
		Notes: []playground.Note{{Title: "Are two protocols called ACP?", Text: "Yes. The Agent Client Protocol connects editors and agents. The Agent Communication Protocol connects agents over HTTP: see @agents."}},
	}
}

func versions() playground.Lesson {
	return playground.Lesson{
		ID: "versions", Title: "Versions 1.0 and 2.0", Target: old,
		Text: []string{
			"JSON-RPC 1.0 of 2005 has no `jsonrpc` member, params by position only, and both `result` and `error` in every response, one of them null.",
			"A notification in 1.0 is a request with `id: null`. Only the missing member distinguishes the versions, so parley accepts 1.0 only where it is enabled.",
		},
		Steps: []playground.Step{
			{ID: "old", Title: "Send a 1.0 request", Hint: "Leave out jsonrpc. 1.0 is enabled at this address.",
				Draft:    `{"id": 1, "method": "subtract", "params": [42, 23]}`,
				Way:      `{"id": 1, "method": "subtract", "params": [42, 23]}`,
				Terminal: playground.TerminalStep{Command: "call @demo-1.0 subtract 42 23", Hint: "1.0 is enabled at this address."},
				Check: func(s *playground.Scene, r *capture.Row) bool {
					answer, _, ok := s.Answer(r)
					m := read(s, &answer)
					return ok && r.Dir == capture.Out && m.Version == "" && len(m.Result) > 0
				}},
			{ID: "null", Title: "See the null", Hint: "The response has error: null beside its result.",
				Check: func(s *playground.Scene, r *capture.Row) bool {
					m := read(s, r)
					return r.Dir == capture.In && m.Version == "" && string(m.Error) == "null"
				}},
			{ID: "new", Title: "Send the same in 2.0", Hint: "Add jsonrpc. The response is 2.0 too.",
				Way: `{"jsonrpc": "2.0", "id": 2, "method": "subtract", "params": [42, 23]}`,
				Check: func(s *playground.Scene, r *capture.Row) bool {
					answer, _, ok := s.Answer(r)
					m := read(s, &answer)
					return ok && r.Dir == capture.Out && m.Version == "2.0" && len(m.Result) > 0
				}},
		},
		Notes: []playground.Note{{Title: "Who still uses 1.0?", Text: "Some wallets and miners. At an address with 2.0 only, the first step gets -32600: try it on @demo."}},
	}
}

func rest() playground.Lesson {
	return playground.Lesson{
		ID: "rest", Title: "JSON-RPC and REST", Target: demo,
		Text: []string{
			"REST puts the object into the URL, the action into the HTTP method, and the outcome into the status. JSON-RPC puts all three into the body, so it works on any transport.",
			"Over HTTP there is one URL, the method is POST, and the status is 200 even for an error.",
		},
		Steps: []playground.Step{
			{ID: "one", Title: "Call a method", Hint: "Call two different methods. Unfold the calls and compare the paths of their HTTP rows.",
				Draft:    `{"jsonrpc": "2.0", "id": 1, "method": "get_data"}`,
				Way:      `{"jsonrpc": "2.0", "id": 1, "method": "get_data"}`,
				Terminal: playground.TerminalStep{Command: "call @demo get_data", Hint: "Look at the path.", HTTP: true},
				Check:    all(sent(capture.RowRequest), done, overHTTP)},
			{ID: "two", Title: "Call another method", Hint: "The path is the same.",
				Way:      `{"jsonrpc": "2.0", "id": 2, "method": "sum", "params": [1, 2]}`,
				Terminal: playground.TerminalStep{Command: "call @demo sum 1 2", HTTP: true},
				Check: all(after("one"), sent(capture.RowRequest), done, overHTTP, func(s *playground.Scene, r *capture.Row) bool {
					for _, earlier := range s.Rows() {
						if earlier.Kind == capture.RowRequest && earlier.Dir == capture.Out && earlier.Method != r.Method {
							return true
						}
					}
					return false
				})},
			{ID: "error", Label: "200", Title: "An error with status 200", Hint: "Call a method that does not exist: the status is 200, the body has -32601.",
				Way:      `{"jsonrpc": "2.0", "id": 3, "method": "no_such_method"}`,
				Terminal: playground.TerminalStep{Command: "call @demo no_such_method", HTTP: true},
				Check: all(failed(-32601), func(s *playground.Scene, r *capture.Row) bool {
					for _, x := range s.Rows() {
						if x.Kind == capture.RowHTTP && x.Exchange == r.Exchange {
							return x.Code == 200
						}
					}
					return false
				})},
		},
		Notes: []playground.Note{
			{Title: "When is REST better?", Text: "When caches, links and browsers must understand the requests: documents, files, objects with a URL."},
			{Title: "When is JSON-RPC better?", Text: "For actions rather than objects, calls in both directions, many calls on one connection, or transports other than HTTP."},
		},
	}
}

func overHTTP(_ *playground.Scene, r *capture.Row) bool { return r.Exchange != 0 }

func framing() playground.Lesson {
	return playground.Lesson{
		ID: "framing", Title: "LSP framing", Target: header,
		Text: []string{
			"A byte stream has no message boundaries. MCP and the Agent Client Protocol end each message with a newline; the Language Server Protocol puts `Content-Length` before it, as HTTP does.",
			"A message can then span several lines. The length counts bytes, not characters. The Debug Adapter Protocol uses the same framing, but its messages are not JSON-RPC.",
		},
		Steps: []playground.Step{
			{ID: "framed", Title: "Send a message with a header", Hint: "The page writes the header. The size in the row is the size of the body.",
				Draft:    `{"jsonrpc": "2.0", "id": 1, "method": "subtract", "params": [42, 23]}`,
				Way:      `{"jsonrpc": "2.0", "id": 1, "method": "subtract", "params": [42, 23]}`,
				Terminal: playground.TerminalStep{Command: "call @demo-lsp subtract 42 23", Hint: "parley writes the header, and does not show it."},
				Check:    all(sent(capture.RowRequest), done)},
			{ID: "lines", Title: "Use several lines", Hint: "Newlines are only white space here.",
				Way:   "{\n  \"jsonrpc\": \"2.0\",\n  \"id\": 2,\n  \"method\": \"sum\",\n  \"params\": [1, 2]\n}",
				Check: all(sent(capture.RowRequest), done, says("\n"))},
			{ID: "bytes", Title: "Use a multi-byte character", Hint: "Echo an é: one character, two bytes. A program that counts characters truncates the message.",
				Way:      `{"jsonrpc": "2.0", "id": 3, "method": "echo", "params": ["é"]}`,
				Terminal: playground.TerminalStep{Command: "call @demo-lsp echo é"},
				Check: all(sent(capture.RowRequest), method("echo"), done, func(s *playground.Scene, r *capture.Row) bool {
					for _, c := range s.Payload(r.Ref) {
						if c >= 0x80 {
							return true
						}
					}
					return false
				})},
		},
		Notes: []playground.Note{{Title: "What is different in DAP?", Text: `Its messages have seq, type and command instead of jsonrpc, id and method. A JSON-RPC server responds with -32600.`}},
	}
}
