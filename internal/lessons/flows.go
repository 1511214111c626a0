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
			"A request yields any number of notifications, then exactly one response. That is how progress, logs and streamed text are made.",
			"JSON-RPC does not say which notification belongs to which request: the protocols on top do, by a member in params.",
		},
		Steps: []playground.Step{
			{ID: "count", Title: "Count down", Hint: "Three steps, and then the result. Over HTTP the answer becomes an event stream.",
				Draft: `{"jsonrpc": "2.0", "id": 1, "method": "countdown", "params": {"from": 3, "interval_ms": 300}}`,
				Way:   `{"jsonrpc": "2.0", "id": 1, "method": "countdown", "params": {"from": 3, "interval_ms": 300}}`,
				Check: all(sent(capture.RowRequest), method("countdown"))},
			{ID: "ticks", Title: "See the steps", Hint: "Unfold the call: each step is a row below it, with the time it came.",
				Check: all(got(capture.RowNotification), method("countdown/tick"))},
			{ID: "result", Title: "And the result behind them", Check: all(sent(capture.RowRequest), method("countdown"), done)},
		},
		Notes: []playground.Note{{Title: "How does MCP do it?", Text: "The request has a progressToken in params._meta, and each notifications/progress names it."}},
	}
}

func cancellation() playground.Lesson {
	return playground.Lesson{
		ID: "cancellation", Title: "Cancellation", Target: duplex,
		Text: []string{
			"JSON-RPC has no message for giving up. Each protocol has its own: `$/cancelRequest` in LSP, `notifications/cancelled` in MCP.",
			"It is a notification that names the request. It may come too late: then the result is there already.",
		},
		Steps: []playground.Step{
			{ID: "begin", Title: "Begin something long", Hint: "Ten seconds of sleep.",
				Draft: `{"jsonrpc": "2.0", "id": "long", "method": "sleep", "params": [10000]}`,
				Way:   `{"jsonrpc": "2.0", "id": "long", "method": "sleep", "params": [10000]}`,
				Check: all(sent(capture.RowRequest), method("sleep"))},
			{ID: "cancel", Title: "Give it up", Hint: "Cancel in the row sends the message, or write it yourself.",
				Way:   `{"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": "long"}}`,
				Check: all(sent(capture.RowNotification), method("$/cancelRequest"))},
			{ID: "answer", Label: "-32800", Title: "It is answered all the same", Hint: "With an error that says: cancelled. In MCP there would be no answer at all.",
				Check: all(method("sleep"), failed(-32800))},
		},
		Notes: []playground.Note{{Title: "And over plain HTTP?", Text: "Whoever ends the HTTP request gives the call up. There is no message, and no answer."}},
	}
}

func sessions() playground.Lesson {
	return playground.Lesson{
		ID: "sessions", Title: "Sessions without sessions", Target: demo,
		Text: []string{
			"JSON-RPC remembers nothing between two requests. What must be remembered is named in params.",
			"`login` makes a token. Whoever shows it is the same person, on any connection and any carrier.",
		},
		Steps: []playground.Step{
			{ID: "login", Title: "Log in", Hint: "Any name will do.",
				Draft: `{"jsonrpc": "2.0", "id": 1, "method": "login", "params": ["ada"]}`,
				Way:   `{"jsonrpc": "2.0", "id": 1, "method": "login", "params": ["ada"]}`,
				Check: all(sent(capture.RowRequest), method("login"), done)},
			{ID: "whoami", Title: "Be known", Hint: "Copy the token from the answer into whoami.",
				Way:   `{"jsonrpc": "2.0", "id": 2, "method": "whoami", "params": ["TOKEN"]}`,
				Check: all(sent(capture.RowRequest), method("whoami"), done)},
			{ID: "count", Title: "Have something remembered", Hint: "Call counter twice with the token.",
				Way:   `{"jsonrpc": "2.0", "id": 3, "method": "counter", "params": ["TOKEN"]}`,
				Check: all(sent(capture.RowRequest), method("counter"), done)},
			{ID: "stranger", Title: "Be a stranger", Hint: "Ask with a token that nobody gave you.",
				Way: `{"jsonrpc": "2.0", "id": 4, "method": "whoami", "params": ["nobody"]}`,
				Check: all(sent(capture.RowRequest), method("whoami"), func(_ *playground.Scene, r *capture.Row) bool {
					return r.State == capture.StateFailed
				})},
		},
		Notes: []playground.Note{{Title: "Why is the token hidden on the wire?", Text: "What looks like a secret is not recorded. The composer still has what you typed."}},
	}
}

func handshake() playground.Lesson {
	return playground.Lesson{
		ID: "mcp", Title: "MCP, the handshake", Target: table, Protocol: playground.ProtocolMCP,
		Text: []string{
			"The Model Context Protocol is JSON-RPC with agreed methods. Up to 2025-11-25 a conversation begins with `initialize`: which version, who can what.",
			"Over HTTP the answer brings `Mcp-Session-Id`, which goes with every later request.",
		},
		Steps: []playground.Step{
			{ID: "initialize", Title: "Say hello", Hint: "Opening the target does it; you can also send it yourself.",
				Draft: `{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "me", "version": "1"}}}`,
				Way:   `{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "me", "version": "1"}}}`,
				Check: all(sent(capture.RowRequest), method(mcp.MethodInitialize), done)},
			{ID: "initialized", Title: "Say that you are ready", Hint: "A notification; from now on the server may ask.",
				Way:   `{"jsonrpc": "2.0", "method": "notifications/initialized"}`,
				Check: all(sent(capture.RowNotification), method(mcp.NotifyInitialized))},
			{ID: "list", Title: "See the tools", Hint: "tools/list. Each has a JSON Schema of its arguments: the form is made of it.",
				Way:   `{"jsonrpc": "2.0", "id": 2, "method": "tools/list"}`,
				Check: all(sent(capture.RowRequest), method(mcp.MethodToolsList), done)},
			{ID: "call", Title: "Use one", Hint: "What is free at Zur Linde?",
				Way:   `{"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "calculator/add", "arguments": {"a": 2, "b": 3}}}`,
				Check: all(sent(capture.RowRequest), method(mcp.MethodToolsCall), done)},
		},
		Notes: []playground.Note{{Title: "What if a tool fails?", Text: "A tool that fails answers with a result that says isError: the model is to read it. A JSON-RPC error means that the call itself was wrong."}},
	}
}

func modern() playground.Lesson {
	meta := `"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}, "io.modelcontextprotocol/clientInfo": {"name": "me", "version": "1"}}`
	return playground.Lesson{
		ID: "mcp-modern", Title: "MCP, without a handshake", Target: table, Protocol: playground.ProtocolMCP,
		Text: []string{
			"From 2026-07-28 there is no handshake and no session. Each request says in `params._meta` which version it speaks and what its sender can.",
			"So any server behind a balancer can answer it. What the server is, `server/discover` tells.",
		},
		Steps: []playground.Step{
			{ID: "discover", Title: "Ask what it is", Hint: "The version stands in _meta, and over HTTP in a header too; the page adds that.",
				Draft: `{"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {` + meta + `}}`,
				Way:   `{"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {` + meta + `}}`,
				Check: all(sent(capture.RowRequest), method(mcp.MethodDiscover), done)},
			{ID: "list", Title: "See the tools at once", Hint: "The same method as before, with _meta, and no handshake in front of it.",
				Way:   `{"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {` + meta + `}}`,
				Check: all(sent(capture.RowRequest), method(mcp.MethodToolsList), says(mcp.MetaProtocolVersion), done)},
			{ID: "unknown", Title: "A version of your own", Hint: "Change the version to 2099-01-01. The server says which it knows.",
				Way: `{"jsonrpc": "2.0", "id": 3, "method": "tools/list", "params": {"_meta": {"io.modelcontextprotocol/protocolVersion": "2099-01-01", "io.modelcontextprotocol/clientCapabilities": {}, "io.modelcontextprotocol/clientInfo": {"name": "me", "version": "1"}}}}`,
				Check: all(sent(capture.RowRequest), says(mcp.MetaProtocolVersion), func(_ *playground.Scene, r *capture.Row) bool {
					return r.State == capture.StateFailed
				})},
		},
		Notes: []playground.Note{{Title: "How does such a server ask me something?", Text: "In its answer: the result says what it needs, and you send the request again with your words in it."}},
	}
}

func agentRun() playground.Lesson {
	return playground.Lesson{
		ID: "agent", Title: "An agent that asks", Target: scribe, Protocol: playground.ProtocolEditor,
		Text: []string{
			"An agent is a program that works in turns: you say something, it streams text, and it may ask before it does what cannot be undone.",
			"This is the editor protocol (ACP of editors), on the stdin and stdout of a child process. You are the editor.",
		},
		Steps: []playground.Step{
			{ID: "session", Title: "Begin a conversation", Hint: "session/new, with the folder that it is about.",
				Draft: `{"jsonrpc": "2.0", "id": 10, "method": "session/new", "params": {"cwd": "/", "mcpServers": []}}`,
				Way:   `{"jsonrpc": "2.0", "id": 10, "method": "session/new", "params": {"cwd": "/", "mcpServers": []}}`,
				Check: all(sent(capture.RowRequest), method("session/new"), done)},
			{ID: "prompt", Title: "Say what you want", Hint: "session/prompt, with the sessionId of the answer before.",
				Way:   `{"jsonrpc": "2.0", "id": 11, "method": "session/prompt", "params": {"sessionId": "SESSION", "prompt": [{"type": "text", "text": "water the plants on Friday"}]}}`,
				Check: all(sent(capture.RowRequest), method("session/prompt"))},
			{ID: "stream", Title: "See it write", Hint: "session/update, a notification for each piece.",
				Check: all(got(capture.RowNotification), method("session/update"))},
			{ID: "permission", Title: "It asks you", Check: all(got(capture.RowRequest), method("session/request_permission"))},
			{ID: "allow", Title: "Say yes, or no", Hint: "Press A and choose. Both are good answers.",
				Check: all(after("permission"), sent(capture.RowResult))},
			{ID: "end", Title: "The turn ends", Hint: "If it wants to write a file, say that it is done: you are its editor. Then the response says why it stopped.",
				Check: all(sent(capture.RowRequest), method("session/prompt"), done)},
		},
		Notes: []playground.Note{{Title: "Two protocols are called ACP?", Text: "Yes. The Agent Client Protocol is between editors and agents; the Agent Communication Protocol is between agents, over HTTP: see @agents."}},
	}
}

func versions() playground.Lesson {
	return playground.Lesson{
		ID: "versions", Title: "1.0 against 2.0", Target: old,
		Text: []string{
			"JSON-RPC 1.0 of 2005 has no `jsonrpc` member, params by position only, and both `result` and `error` in every response, one of them null.",
			"A notification there is a request with `id: null`. Nothing tells the versions apart but the missing member, so a server speaks 1.0 only where somebody has switched it on.",
		},
		Steps: []playground.Step{
			{ID: "old", Title: "Ask in 1.0", Hint: "Leave jsonrpc out. This address has 1.0 switched on.",
				Draft: `{"id": 1, "method": "subtract", "params": [42, 23]}`,
				Way:   `{"id": 1, "method": "subtract", "params": [42, 23]}`,
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
			{ID: "new", Title: "Ask the same in 2.0", Hint: "Add jsonrpc. The answer is in 2.0 as well.",
				Way: `{"jsonrpc": "2.0", "id": 2, "method": "subtract", "params": [42, 23]}`,
				Check: func(s *playground.Scene, r *capture.Row) bool {
					answer, _, ok := s.Answer(r)
					m := read(s, &answer)
					return ok && r.Dir == capture.Out && m.Version == "2.0" && len(m.Result) > 0
				}},
		},
		Notes: []playground.Note{{Title: "Who still speaks 1.0?", Text: "Some wallets and miners do. On an address that speaks 2.0 alone the first step is answered with -32600: try it on @demo."}},
	}
}

func rest() playground.Lesson {
	return playground.Lesson{
		ID: "rest", Title: "JSON-RPC against REST", Target: demo,
		Text: []string{
			"REST puts the thing into the address, the deed into the HTTP method, and the outcome into the status. JSON-RPC puts all three into the body, so it works on any carrier.",
			"Over HTTP that means: one address, always POST, and status 200 for an error too. Unfold a call and look at its HTTP row.",
		},
		Steps: []playground.Step{
			{ID: "one", Title: "Two deeds, one address", Hint: "Call two different methods, and compare the path of their HTTP rows.",
				Draft: `{"jsonrpc": "2.0", "id": 1, "method": "get_data"}`,
				Way:   `{"jsonrpc": "2.0", "id": 1, "method": "get_data"}`,
				Check: all(sent(capture.RowRequest), done, overHTTP)},
			{ID: "two", Title: "Another deed", Hint: "The same path again.",
				Way: `{"jsonrpc": "2.0", "id": 2, "method": "sum", "params": [1, 2]}`,
				Check: all(after("one"), sent(capture.RowRequest), done, overHTTP, func(s *playground.Scene, r *capture.Row) bool {
					for _, earlier := range s.Rows() {
						if earlier.Kind == capture.RowRequest && earlier.Dir == capture.Out && earlier.Method != r.Method {
							return true
						}
					}
					return false
				})},
			{ID: "error", Label: "200", Title: "An error with a good status", Hint: "Call a method that does not exist: HTTP says 200, the body says -32601.",
				Way: `{"jsonrpc": "2.0", "id": 3, "method": "no_such_method"}`,
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
			{Title: "When is REST better?", Text: "When caches, links and browsers are to understand what happens: documents, files, things with an address of their own."},
			{Title: "When is JSON-RPC?", Text: "When there are verbs rather than things, when both sides ask, when one connection carries many calls, or when there is no HTTP at all."},
		},
	}
}

func overHTTP(_ *playground.Scene, r *capture.Row) bool { return r.Exchange != 0 }

func framing() playground.Lesson {
	return playground.Lesson{
		ID: "framing", Title: "How LSP frames it", Target: header,
		Text: []string{
			"A stream of bytes has no messages. MCP and the editor protocol end each with a newline; the Language Server Protocol puts `Content-Length` in front, as HTTP does.",
			"So a message may be spread over many lines there. The length counts bytes, not characters. The Debug Adapter Protocol is framed in the same way, but what is in the frame is no JSON-RPC.",
		},
		Steps: []playground.Step{
			{ID: "framed", Title: "Send one behind a header", Hint: "The page writes the header; the size in the row is that of the body.",
				Draft: `{"jsonrpc": "2.0", "id": 1, "method": "subtract", "params": [42, 23]}`,
				Way:   `{"jsonrpc": "2.0", "id": 1, "method": "subtract", "params": [42, 23]}`,
				Check: all(sent(capture.RowRequest), done)},
			{ID: "lines", Title: "On several lines", Hint: "Spread it: newlines are only white space now.",
				Way:   "{\n  \"jsonrpc\": \"2.0\",\n  \"id\": 2,\n  \"method\": \"sum\",\n  \"params\": [1, 2]\n}",
				Check: all(sent(capture.RowRequest), done, says("\n"))},
			{ID: "bytes", Title: "With letters of more than one byte", Hint: "Echo an é: it is one character and two bytes. Who counts characters cuts the message.",
				Way: `{"jsonrpc": "2.0", "id": 3, "method": "echo", "params": ["é"]}`,
				Check: all(sent(capture.RowRequest), method("echo"), done, func(s *playground.Scene, r *capture.Row) bool {
					for _, c := range s.Payload(r.Ref) {
						if c >= 0x80 {
							return true
						}
					}
					return false
				})},
		},
		Notes: []playground.Note{{Title: "What is different in DAP?", Text: `Its messages have seq, type and command instead of jsonrpc, id and method. A JSON-RPC server answers them with -32600.`}},
	}
}
