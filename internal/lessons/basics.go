package lessons

import (
	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/playground"
)

func request() playground.Lesson {
	return playground.Lesson{
		ID: "request", Title: "A request", Target: demo,
		Text: []string{
			"A request is a JSON object with four members: `jsonrpc` is the version, `method` the name of the method, `params` its arguments, and `id` identifies the response.",
			"The server sends exactly one response, with the same `id` and either a `result` or an `error`.",
		},
		Steps: []playground.Step{
			{ID: "send", Title: "Request a difference", Hint: "Send the request in the composer.",
				Draft:    `{"jsonrpc": "2.0", "id": 1, "method": "subtract", "params": [42, 23]}`,
				Way:      `{"jsonrpc": "2.0", "id": 1, "method": "subtract", "params": [42, 23]}`,
				Terminal: playground.TerminalStep{Command: "call @demo subtract 42 23", Hint: "42 minus 23."},
				Check:    all(sent(capture.RowRequest), method("subtract"), done)},
			{ID: "id", Title: "Use a string as the ID", Hint: "An ID can also be a string. The response contains exactly the same ID.",
				Way:      `{"jsonrpc": "2.0", "id": "my first", "method": "subtract", "params": [42, 23]}`,
				Terminal: playground.TerminalStep{Command: "call @demo subtract 42 23 --id 'my first'"},
				Check: all(sent(capture.RowRequest), done, func(_ *playground.Scene, r *capture.Row) bool {
					return len(r.ID) > 2 && r.ID[0] == '"'
				})},
			{ID: "none", Title: "Omit the params", Hint: "Call get_data, a method without params.",
				Way:      `{"jsonrpc": "2.0", "id": 3, "method": "get_data"}`,
				Terminal: playground.TerminalStep{Command: "call @demo get_data"},
				Check: all(sent(capture.RowRequest), done, func(s *playground.Scene, r *capture.Row) bool {
					return len(read(s, r).Params) == 0
				})},
		},
		Notes: []playground.Note{
			{Title: "Why is there an ID?", Text: "Many requests can run at once, and their responses arrive in any order. The ID connects a response to its request."},
			{Title: "Which IDs are good?", Text: "Strings and integers. null is for responses to messages that could not be parsed, and fractions can lose precision."},
		},
	}
}

func params() playground.Lesson {
	return playground.Lesson{
		ID: "params", Title: "Named and positional params", Target: demo,
		Text: []string{
			"`params` is an array (positional) or an object (named). A good server accepts both.",
			"The order of an array matters. The order of an object does not, and its names explain the values.",
		},
		Steps: []playground.Step{
			{ID: "position", Title: "By position", Hint: "42 minus 23.",
				Draft:    `{"jsonrpc": "2.0", "id": 1, "method": "subtract", "params": [42, 23]}`,
				Way:      `{"jsonrpc": "2.0", "id": 1, "method": "subtract", "params": [42, 23]}`,
				Terminal: playground.TerminalStep{Command: "call @demo subtract 42 23"},
				Check:    all(sent(capture.RowRequest), paramsAre('['), done)},
			{ID: "turned", Title: "Swap the order", Hint: "Swap the two numbers: the sign of the result changes.",
				Way:      `{"jsonrpc": "2.0", "id": 2, "method": "subtract", "params": [23, 42]}`,
				Terminal: playground.TerminalStep{Command: "call @demo subtract 23 42"},
				Check: all(sent(capture.RowRequest), method("subtract"), paramsAre('['), done, func(s *playground.Scene, r *capture.Row) bool {
					answer, _, _ := s.Answer(r)
					result := read(s, &answer).Result
					return len(result) > 1 && result[0] == '-'
				})},
			{ID: "name", Title: "By name", Hint: `The names are minuend and subtrahend. Their order does not matter.`,
				Way:      `{"jsonrpc": "2.0", "id": 3, "method": "subtract", "params": {"subtrahend": 23, "minuend": 42}}`,
				Terminal: playground.TerminalStep{Command: "call @demo subtract subtrahend:=23 minuend:=42"},
				Check:    all(sent(capture.RowRequest), paramsAre('{'), done)},
			{ID: "wrong", Title: "A wrong name", Hint: "Misspell one of them. The error names the place.",
				Way:      `{"jsonrpc": "2.0", "id": 4, "method": "subtract", "params": {"subtrahand": 23, "minuend": 42}}`,
				Terminal: playground.TerminalStep{Command: "call @demo subtract subtrahand:=23 minuend:=42"},
				Check:    all(sent(capture.RowRequest), paramsAre('{'), failed(-32602))},
		},
		Notes: []playground.Note{{Title: "Can params be a number?", Text: "No. Put a single value into an array: [5]."}},
	}
}

func notification() playground.Lesson {
	return playground.Lesson{
		ID: "notification", Title: "Notifications", Target: demo,
		Text: []string{
			"A request without an `id` is a notification. It gets no response, not even an error.",
			"The sender does not learn whether it arrived. Use it for events that can be lost.",
		},
		Steps: []playground.Step{
			{ID: "send", Title: "Send an event", Hint: "log_event stores its params. Send it without an ID.",
				Draft:    `{"jsonrpc": "2.0", "method": "log_event", "params": ["door opened"]}`,
				Way:      `{"jsonrpc": "2.0", "method": "log_event", "params": ["door opened"]}`,
				Terminal: playground.TerminalStep{Command: "call @demo log_event 'door opened' -n"},
				Check:    all(sent(capture.RowNotification), method("log_event"))},
			{ID: "look", Title: "Check that it arrived", Hint: "Call get_log for the newest entry.",
				Way:      `{"jsonrpc": "2.0", "id": 2, "method": "get_log", "params": [1]}`,
				Terminal: playground.TerminalStep{Command: "call @demo get_log 1"},
				Check:    all(after("send"), sent(capture.RowRequest), method("get_log"), done)},
			{ID: "silence", Title: "An error without a response", Hint: "Send a notification for a method that does not exist. There is no response.",
				Way:      `{"jsonrpc": "2.0", "method": "no_such_method"}`,
				Terminal: playground.TerminalStep{Command: "call @demo no_such_method -n"},
				Check: all(sent(capture.RowNotification), func(_ *playground.Scene, r *capture.Row) bool {
					return r.Method != "log_event" && r.Method != "update" && r.Method != "notify_hello" && r.Method != "notify_sum"
				})},
		},
		Notes: []playground.Note{{Title: "Is a message with ID null a notification?", Text: "No. A request with ID null gets a response. Only a message without an ID is a notification."}},
	}
}

func errors() playground.Lesson {
	return playground.Lesson{
		ID: "errors", Title: "Errors, one per code", Target: demo,
		Text: []string{
			"An error is a response too. It has the ID of the request and a code for the cause.",
			"JSON-RPC defines five codes. Make the server return each of them.",
		},
		Steps: []playground.Step{
			{ID: "parse", Label: "-32700", Title: "The bytes are not JSON", Hint: "Leave out a bracket.",
				Draft: `{"jsonrpc": "2.0", "id": 1, "method":`, Way: `{"jsonrpc": "2.0", "id": 1, "method":`, Check: failed(-32700)},
			{ID: "invalid", Label: "-32600", Title: "JSON, but not a request", Hint: "Leave out jsonrpc.",
				Way: `{"id": 2, "method": "sum"}`, Check: failed(-32600)},
			{ID: "method", Label: "-32601", Title: "No such method", Hint: "Misspell one.",
				Way: `{"jsonrpc": "2.0", "id": 3, "method": "subtrakt", "params": [42, 23]}`, Terminal: playground.TerminalStep{Command: "call @demo subtrakt 42 23"}, Check: failed(-32601)},
			{ID: "params", Label: "-32602", Title: "Invalid params", Hint: "`subtract` requires two numbers. Send one, three, or a string.",
				Way: `{"jsonrpc": "2.0", "id": 4, "method": "subtract", "params": [42, "23"]}`, Terminal: playground.TerminalStep{Command: `call @demo subtract 42 '"23"'`}, Check: failed(-32602)},
			{ID: "internal", Label: "-32603", Title: "The server failed", Hint: "The method `panic` panics.",
				Way: `{"jsonrpc": "2.0", "id": 5, "method": "panic"}`, Terminal: playground.TerminalStep{Command: "call @demo panic"}, Check: failed(-32603)},
			{ID: "own", Label: "your own", Title: "An application error", Hint: "`fail` returns the error in its params. Codes outside -32768 to -32000 are free for applications.",
				Way:      `{"jsonrpc": "2.0", "id": 6, "method": "fail", "params": {"code": 7, "message": "The kitchen is closed"}}`,
				Terminal: playground.TerminalStep{Command: "call @demo fail code:=7 message='The kitchen is closed'"},
				Check: all(sent(capture.RowRequest), method("fail"), func(s *playground.Scene, r *capture.Row) bool {
					answer, _, ok := s.Answer(r)
					return ok && answer.HasCode && (answer.Code < -32768 || answer.Code > -32000)
				})},
		},
		Notes: []playground.Note{
			{Title: "Why does the first response have no ID?", Text: "The server could not parse the message, so it could not read the ID. The response has null instead."},
			{Title: "What should an error contain?", Text: "A message for people and data for programs. Private details stay in the server's log: the response to `panic` has a reference number."},
		},
	}
}

func batch() playground.Lesson {
	return playground.Lesson{
		ID: "batch", Title: "Batches", Target: demo,
		Text: []string{
			"A batch is an array of messages. The responses are one array too, in any order, without entries for notifications.",
			"Each member is handled separately: an invalid one does not affect the others.",
		},
		Steps: []playground.Step{
			{ID: "two", Title: "Two requests", Hint: "Two requests in one array, with different IDs.",
				Draft: `[{"jsonrpc": "2.0", "id": "1", "method": "sum", "params": [1, 2, 4]}, {"jsonrpc": "2.0", "id": "2", "method": "subtract", "params": [42, 23]}]`,
				Way:   `[{"jsonrpc": "2.0", "id": "1", "method": "sum", "params": [1, 2, 4]}, {"jsonrpc": "2.0", "id": "2", "method": "subtract", "params": [42, 23]}]`,
				Check: all(sent(capture.RowBatch), answered, func(_ *playground.Scene, r *capture.Row) bool { return r.Members >= 2 })},
			{ID: "mixed", Title: "A request and a notification", Hint: "Leave out the ID of one member, and count the responses.",
				Way:   `[{"jsonrpc": "2.0", "id": "1", "method": "sum", "params": [1, 2, 4]}, {"jsonrpc": "2.0", "method": "notify_hello", "params": [7]}]`,
				Check: all(sent(capture.RowNotification), member)},
			{ID: "bad", Title: "An invalid member", Hint: `Add {"foo": "boo"}. The other members still get their responses.`,
				Way:   `[{"foo": "boo"}, {"jsonrpc": "2.0", "id": "9", "method": "get_data"}]`,
				Check: all(member, failed(-32600))},
			{ID: "empty", Title: "An empty array", Hint: "[] is not a valid batch. The response is one error, not an array.",
				Way: `[]`, Check: all(failed(-32600), func(s *playground.Scene, r *capture.Row) bool { return string(s.Payload(r.Ref)) == "[]" })},
		},
		Notes: []playground.Note{{Title: "Which protocols have batches?", Text: "JSON-RPC 2.0 has them. MCP had them in 2025-03-26 only. LSP and the Agent Client Protocol have none."}},
	}
}

func answered(_ *playground.Scene, r *capture.Row) bool { return !r.Answer.IsZero() }

func member(_ *playground.Scene, r *capture.Row) bool {
	return r.Ref.Member > 0 && r.Dir == capture.Out
}

func order() playground.Lesson {
	return playground.Lesson{
		ID: "order", Title: "Responses out of order", Target: duplex,
		Text: []string{
			"Many requests can run on one connection. The one that finishes first gets its response first.",
			"Only the ID connects a response to its request. Do not rely on the order.",
		},
		Steps: []playground.Step{
			{ID: "slow", Title: "Start a slow request", Hint: "`sleep` returns after the given number of milliseconds.",
				Draft:    `{"jsonrpc": "2.0", "id": "slow", "method": "sleep", "params": [3000]}`,
				Way:      `{"jsonrpc": "2.0", "id": "slow", "method": "sleep", "params": [3000]}`,
				Terminal: playground.TerminalStep{Command: "repl @demo-tcp", Input: "sleep 1000 &\nsubtract 42 23\n", Hint: "`sleep` returns after the given number of milliseconds. A line that ends with & does not wait for its response."},
				Check:    all(sent(capture.RowRequest), method("sleep"))},
			{ID: "fast", Title: "Start a fast one before it finishes", Hint: "The second response overtakes the first.",
				Way: `{"jsonrpc": "2.0", "id": "fast", "method": "subtract", "params": [42, 23]}`,
				Check: all(sent(capture.RowRequest), done, func(s *playground.Scene, r *capture.Row) bool {
					// A request that was sent earlier and answered later, or is still pending.
					for _, earlier := range s.Rows() {
						if earlier.Kind == capture.RowRequest && earlier.Dir == capture.Out && earlier.Ref.Seq < r.Ref.Seq && earlier.Conn == r.Conn &&
							(earlier.Answer.IsZero() && earlier.State == capture.StateWaiting || earlier.Answer.Seq > r.Answer.Seq) {
							return true
						}
					}
					return false
				})},
			{ID: "both", Title: "Wait for both responses", Hint: "Wait for the slow one.",
				Terminal: playground.TerminalStep{Hint: "The first request got its response last."},
				Check:    all(after("fast"), sent(capture.RowRequest), method("sleep"), done)},
		},
		Notes: []playground.Note{{Title: "What about HTTP?", Text: "Each POST has its own response, so HTTP defines the order. The ID must still match."}},
	}
}

func roles() playground.Lesson {
	return playground.Lesson{
		ID: "roles", Title: "Calls in both directions", Target: duplex,
		Text: []string{
			"JSON-RPC has no fixed client and server. On a duplex connection each side can call the other.",
			"`ask` calls your method `answer` before it responds. You write that response yourself.",
		},
		Steps: []playground.Step{
			{ID: "ask", Title: "Start the call", Hint: "Call `ask` with a question.",
				Draft:    `{"jsonrpc": "2.0", "id": 1, "method": "ask", "params": ["tea or coffee?"]}`,
				Way:      `{"jsonrpc": "2.0", "id": 1, "method": "ask", "params": ["tea or coffee?"]}`,
				Terminal: playground.TerminalStep{Command: "call @demo-tcp ask 'tea or coffee?' --answer tea", Hint: "Call `ask` with a question. `--answer` is your response to the server's request."},
				Check:    all(sent(capture.RowRequest), method("ask"))},
			{ID: "asked", Title: "Receive a request", Hint: "The server chose its ID. IDs of the two directions are independent.",
				Check: got(capture.RowRequest)},
			{ID: "answer", Title: "Respond", Hint: `Press A, or write the response: the ID of the server's request, and your result.`,
				Terminal: playground.TerminalStep{Hint: "parley sent it: the ID of the server's request, and your result."},
				Check:    all(sent(capture.RowResult))},
			{ID: "result", Title: "Receive your own response", Check: all(sent(capture.RowRequest), method("ask"), done)},
		},
		Notes: []playground.Note{
			{Title: "Who uses this?", Text: "MCP servers request user input (elicitation), agents in editors request permissions, language servers request settings."},
			{Title: "Can both sides use ID 1 at once?", Text: "Yes. An ID belongs to the side that sent the request."},
		},
	}
}
