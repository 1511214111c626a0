package lessons

import (
	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/playground"
)

func request() playground.Lesson {
	return playground.Lesson{
		ID: "request", Title: "A request", Target: demo,
		Text: []string{
			lines("A request is a JSON object with four members. `jsonrpc` says which version it is, `method` what is to be done, `params` with what, and `id` which answer belongs to it."),
			lines("The server sends exactly one response, with the same `id`, and either a `result` or an `error`."),
		},
		Steps: []playground.Step{
			{ID: "send", Title: "Ask for a difference", Hint: "Send the request that is in the composer.",
				Draft: `{"jsonrpc": "2.0", "id": 1, "method": "subtract", "params": [42, 23]}`,
				Way:   `{"jsonrpc": "2.0", "id": 1, "method": "subtract", "params": [42, 23]}`,
				Check: all(sent(capture.RowRequest), method("subtract"), done)},
			{ID: "id", Title: "Give it a name", Hint: "An id may be a text too. It comes back exactly as it went.",
				Way: `{"jsonrpc": "2.0", "id": "my first", "method": "subtract", "params": [42, 23]}`,
				Check: all(sent(capture.RowRequest), done, func(_ *playground.Scene, r *capture.Row) bool {
					return len(r.ID) > 2 && r.ID[0] == '"'
				})},
			{ID: "none", Title: "Leave the params out", Hint: "A method that needs none takes none: get_data.",
				Way: `{"jsonrpc": "2.0", "id": 3, "method": "get_data"}`,
				Check: all(sent(capture.RowRequest), done, func(s *playground.Scene, r *capture.Row) bool {
					return len(read(s, r).Params) == 0
				})},
		},
		Notes: []playground.Note{
			{Title: "Why an id at all?", Text: "Many requests can be under way at once, and the answers come in any order. The id tells which is which."},
			{Title: "Which ids are good?", Text: "Texts and whole numbers. null is for answers to what could not be read, and fractions may change on the way."},
		},
	}
}

func params() playground.Lesson {
	return playground.Lesson{
		ID: "params", Title: "Names and positions", Target: demo,
		Text: []string{
			"`params` is an array or an object: by position, or by name. A good server takes both.",
			"By position the order counts. By name it does not, and a reader sees what is what.",
		},
		Steps: []playground.Step{
			{ID: "position", Title: "By position", Hint: "42 minus 23.",
				Draft: `{"jsonrpc": "2.0", "id": 1, "method": "subtract", "params": [42, 23]}`,
				Way:   `{"jsonrpc": "2.0", "id": 1, "method": "subtract", "params": [42, 23]}`,
				Check: all(sent(capture.RowRequest), paramsAre('['), done)},
			{ID: "turned", Title: "The other way round", Hint: "Swap the two numbers: the result changes its sign.",
				Way: `{"jsonrpc": "2.0", "id": 2, "method": "subtract", "params": [23, 42]}`,
				Check: all(sent(capture.RowRequest), method("subtract"), paramsAre('['), done, func(s *playground.Scene, r *capture.Row) bool {
					answer, _, _ := s.Answer(r)
					result := read(s, &answer).Result
					return len(result) > 1 && result[0] == '-'
				})},
			{ID: "name", Title: "By name", Hint: `The names are minuend and subtrahend; their order does not matter.`,
				Way:   `{"jsonrpc": "2.0", "id": 3, "method": "subtract", "params": {"subtrahend": 23, "minuend": 42}}`,
				Check: all(sent(capture.RowRequest), paramsAre('{'), done)},
			{ID: "wrong", Title: "A name that is none", Hint: "Misspell one of them, and see how the server says where.",
				Way:   `{"jsonrpc": "2.0", "id": 4, "method": "subtract", "params": {"subtrahand": 23, "minuend": 42}}`,
				Check: all(sent(capture.RowRequest), paramsAre('{'), failed(-32602))},
		},
		Notes: []playground.Note{{Title: "Can params be a number?", Text: "No. A single value goes into an array of one: [5]."}},
	}
}

func notification() playground.Lesson {
	return playground.Lesson{
		ID: "notification", Title: "Notifications", Target: demo,
		Text: []string{
			"A request without an `id` is a notification. Nobody answers it, not even with an error.",
			"So you never know whether it arrived. Use it for news that can be missed, and never for questions.",
		},
		Steps: []playground.Step{
			{ID: "send", Title: "Say something", Hint: "log_event remembers whatever it is told. Send it without an id.",
				Draft: `{"jsonrpc": "2.0", "method": "log_event", "params": ["door opened"]}`,
				Way:   `{"jsonrpc": "2.0", "method": "log_event", "params": ["door opened"]}`,
				Check: all(sent(capture.RowNotification), method("log_event"))},
			{ID: "look", Title: "See that it arrived", Hint: "Ask get_log for the newest entry.",
				Way:   `{"jsonrpc": "2.0", "id": 2, "method": "get_log", "params": [1]}`,
				Check: all(after("send"), sent(capture.RowRequest), method("get_log"), done)},
			{ID: "silence", Title: "A mistake nobody hears of", Hint: "Notify a method that does not exist. There is no answer.",
				Way: `{"jsonrpc": "2.0", "method": "no_such_method"}`,
				Check: all(sent(capture.RowNotification), func(_ *playground.Scene, r *capture.Row) bool {
					return r.Method != "log_event" && r.Method != "update" && r.Method != "notify_hello" && r.Method != "notify_sum"
				})},
		},
		Notes: []playground.Note{{Title: "Is an id of null a notification?", Text: "No. A request with id null wants an answer; only a missing id means that none is wanted."}},
	}
}

func errors() playground.Lesson {
	return playground.Lesson{
		ID: "errors", Title: "Errors, one per code", Target: demo,
		Text: []string{
			"An error is an answer too. It has the id of the request and a code that says whose fault it was.",
			"Five codes belong to JSON-RPC itself. Make the server say each of them.",
		},
		Steps: []playground.Step{
			{ID: "parse", Label: "-32700", Title: "The bytes are not JSON", Hint: "Leave out a bracket.",
				Draft: `{"jsonrpc": "2.0", "id": 1, "method":`, Way: `{"jsonrpc": "2.0", "id": 1, "method":`, Check: failed(-32700)},
			{ID: "invalid", Label: "-32600", Title: "JSON, but no request", Hint: "Leave out jsonrpc.",
				Way: `{"id": 2, "method": "sum"}`, Check: failed(-32600)},
			{ID: "method", Label: "-32601", Title: "No such method", Hint: "Misspell one.",
				Way: `{"jsonrpc": "2.0", "id": 3, "method": "subtrakt", "params": [42, 23]}`, Check: failed(-32601)},
			{ID: "params", Label: "-32602", Title: "Wrong params", Hint: "`subtract` wants two numbers. Give it one, three, or a word.",
				Way: `{"jsonrpc": "2.0", "id": 4, "method": "subtract", "params": [42, "23"]}`, Check: failed(-32602)},
			{ID: "internal", Label: "-32603", Title: "The server broke", Hint: "The method `panic` does what its name says.",
				Way: `{"jsonrpc": "2.0", "id": 5, "method": "panic"}`, Check: failed(-32603)},
			{ID: "own", Label: "your own", Title: "A code of the program", Hint: "`fail` answers with the error that you describe. Codes outside of -32768 to -32000 are free.",
				Way: `{"jsonrpc": "2.0", "id": 6, "method": "fail", "params": {"code": 7, "message": "The kitchen is closed"}}`,
				Check: all(sent(capture.RowRequest), method("fail"), func(s *playground.Scene, r *capture.Row) bool {
					answer, _, ok := s.Answer(r)
					return ok && answer.HasCode && (answer.Code < -32768 || answer.Code > -32000)
				})},
		},
		Notes: []playground.Note{
			{Title: "Why no id in the first answer?", Text: "Who cannot read a message cannot know its id. The answer has null instead."},
			{Title: "What may an error tell?", Text: "Its message is for people, its data for programs. What is private stays in the server's log: the answer to `panic` has a number to find it by."},
		},
	}
}

func batch() playground.Lesson {
	return playground.Lesson{
		ID: "batch", Title: "Batches", Target: demo,
		Text: []string{
			"Several messages in one array are a batch. The answers come in one array too, in any order, and none for notifications.",
			"Each member is judged by itself: a bad one does not spoil the others.",
		},
		Steps: []playground.Step{
			{ID: "two", Title: "Two at once", Hint: "Two requests in one array, with different ids.",
				Draft: `[{"jsonrpc": "2.0", "id": "1", "method": "sum", "params": [1, 2, 4]}, {"jsonrpc": "2.0", "id": "2", "method": "subtract", "params": [42, 23]}]`,
				Way:   `[{"jsonrpc": "2.0", "id": "1", "method": "sum", "params": [1, 2, 4]}, {"jsonrpc": "2.0", "id": "2", "method": "subtract", "params": [42, 23]}]`,
				Check: all(sent(capture.RowBatch), answered, func(_ *playground.Scene, r *capture.Row) bool { return r.Members >= 2 })},
			{ID: "mixed", Title: "With a notification in it", Hint: "Leave out the id of one member, and count the answers.",
				Way:   `[{"jsonrpc": "2.0", "id": "1", "method": "sum", "params": [1, 2, 4]}, {"jsonrpc": "2.0", "method": "notify_hello", "params": [7]}]`,
				Check: all(sent(capture.RowNotification), member)},
			{ID: "bad", Title: "With a bad member", Hint: `Put {"foo": "boo"} into it. The others are answered all the same.`,
				Way:   `[{"foo": "boo"}, {"jsonrpc": "2.0", "id": "9", "method": "get_data"}]`,
				Check: all(member, failed(-32600))},
			{ID: "empty", Title: "An empty one", Hint: "[] is no batch; the answer is one error and no array.",
				Way: `[]`, Check: all(failed(-32600), func(s *playground.Scene, r *capture.Row) bool { return string(s.Payload(r.Ref)) == "[]" })},
		},
		Notes: []playground.Note{{Title: "Who takes batches?", Text: "JSON-RPC 2.0 does. MCP had them in 2025-03-26 only; LSP and the editor protocol have none."}},
	}
}

func answered(_ *playground.Scene, r *capture.Row) bool { return !r.Answer.IsZero() }

func member(_ *playground.Scene, r *capture.Row) bool {
	return r.Ref.Member > 0 && r.Dir == capture.Out
}

func order() playground.Lesson {
	return playground.Lesson{
		ID: "order", Title: "Ids out of order", Target: duplex,
		Text: []string{
			"On one connection many requests can be under way. Who is done first answers first.",
			"The id is all that tells the answers apart. Never count on their order.",
		},
		Steps: []playground.Step{
			{ID: "slow", Title: "Ask for something slow", Hint: "`sleep` answers after so many milliseconds.",
				Draft: `{"jsonrpc": "2.0", "id": "slow", "method": "sleep", "params": [3000]}`,
				Way:   `{"jsonrpc": "2.0", "id": "slow", "method": "sleep", "params": [3000]}`,
				Check: all(sent(capture.RowRequest), method("sleep"))},
			{ID: "fast", Title: "And for something fast, before it is answered", Hint: "The second answer overtakes the first.",
				Way: `{"jsonrpc": "2.0", "id": "fast", "method": "subtract", "params": [42, 23]}`,
				Check: all(sent(capture.RowRequest), done, func(s *playground.Scene, r *capture.Row) bool {
					for _, earlier := range s.Rows() { // one that began before and was answered later, or not yet
						if earlier.Kind == capture.RowRequest && earlier.Dir == capture.Out && earlier.Ref.Seq < r.Ref.Seq && earlier.Conn == r.Conn &&
							(earlier.Answer.IsZero() && earlier.State == capture.StateWaiting || earlier.Answer.Seq > r.Answer.Seq) {
							return true
						}
					}
					return false
				})},
			{ID: "both", Title: "See both answered", Hint: "Wait for the slow one.",
				Check: all(after("fast"), sent(capture.RowRequest), method("sleep"), done)},
		},
		Notes: []playground.Note{{Title: "And over HTTP?", Text: "Each POST has its own answer, so order is HTTP's business there. The id must be right all the same."}},
	}
}

func roles() playground.Lesson {
	return playground.Lesson{
		ID: "roles", Title: "Both sides ask", Target: duplex,
		Text: []string{
			"JSON-RPC has no fixed client and server. On a connection that both sides can write to, either may ask.",
			"`ask` calls your method `answer` while you wait for it. Your answer is a response that you write yourself.",
		},
		Steps: []playground.Step{
			{ID: "ask", Title: "Have yourself asked", Hint: "Call `ask` with a question.",
				Draft: `{"jsonrpc": "2.0", "id": 1, "method": "ask", "params": ["tea or coffee?"]}`,
				Way:   `{"jsonrpc": "2.0", "id": 1, "method": "ask", "params": ["tea or coffee?"]}`,
				Check: all(sent(capture.RowRequest), method("ask"))},
			{ID: "asked", Title: "A request comes to you", Hint: "It has an id of the server's making. Yours and theirs never meet.",
				Check: got(capture.RowRequest)},
			{ID: "answer", Title: "Answer it", Hint: `Press A, or write the response: the id of their request, and your result.`,
				Check: all(sent(capture.RowResult))},
			{ID: "result", Title: "And get your own answer", Check: all(sent(capture.RowRequest), method("ask"), done)},
		},
		Notes: []playground.Note{
			{Title: "Who uses this?", Text: "MCP servers ask for a user's words (elicitation), agents in editors for permission, language servers for settings."},
			{Title: "Can both use id 1 at once?", Text: "Yes. An id belongs to the side that asked; direction tells them apart."},
		},
	}
}
