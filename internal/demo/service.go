package demo

import (
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/jsonrpc/openrpc"
)

// A Service is one instance of the demo with its own state: its tokens and log entries are unknown
// to other instances.
type Service struct {
	// Mux dispatches the methods. Serve Handler and not Mux; otherwise countdown's ticks lack the
	// ID of their call.
	Mux *jsonrpc.Mux

	// Discovery describes the methods; it handles "rpc.discover".
	Discovery *openrpc.Discovery

	sessions sessions
	events   events
}

// New creates a demo. version is the demo's version, for "rpc.discover".
func New(version string) *Service {
	s := &Service{Mux: new(jsonrpc.Mux)}
	s.Discovery = openrpc.New(s.Mux, openrpc.Info{
		Title:       "parley demo",
		Version:     version,
		Description: "Small methods, one for each feature of JSON-RPC 2.0. `countdown` sends notifications before it responds, `ask` calls its caller, `sleep` can be cancelled.",
	})
	number := &jsonschema.Schema{Type: "number"}
	s.Discovery.Types = map[reflect.Type]*jsonschema.Schema{reflect.TypeFor[Number](): number, reflect.TypeFor[*Number](): number}
	for _, m := range s.methods() {
		s.Mux.Add(m.name, m.handler, m.mode)
		s.Discovery.Describe(m.name, m.doc)
	}
	s.Discovery.Register()
	return s
}

// Handler handles the demo's methods.
func (s *Service) Handler() jsonrpc.Handler { return jsonrpc.Chain(s.Mux, identify) }

// A method is one row of the demo's method table.
type method struct {
	name    string
	handler jsonrpc.Handler
	mode    jsonrpc.Mode
	doc     openrpc.Doc
}

// list abbreviates the values of an example.
type list = []any

func (s *Service) methods() []method {
	raw := func(f jsonrpc.HandlerFunc) jsonrpc.Handler { return f }
	anything := []openrpc.ContentDescriptor{{Name: "params", Description: "any params, or none", Extra: openrpc.Extensions{openrpc.Variadic: jsonrpc.Raw("true")}}}
	noParams := []openrpc.ContentDescriptor{}
	null := &openrpc.ContentDescriptor{Schema: jsonrpc.Raw(`{"type":"null"}`)}
	badParams := []*jsonrpc.Error{jsonrpc.ErrInvalidParams}
	badToken := []*jsonrpc.Error{jsonrpc.ErrInvalidParams, jsonrpc.NewError(codeNoToken, "Unknown token")}

	return []method{
		{"subtract", jsonrpc.Func(subtract), jsonrpc.Quick, openrpc.Doc{
			Summary: "One number minus another, exactly.",
			Examples: []openrpc.ExamplePairing{
				openrpc.Pair("by position or by name", list{42, 23}, 19),
				openrpc.Pair("beyond the precision of a float64", list{jsonrpc.Raw("9007199254740993"), 1}, jsonrpc.Raw("9007199254740992")),
			},
			Errors: badParams,
		}},
		{"add", jsonrpc.Func(addNumbers), jsonrpc.Quick, openrpc.Doc{
			Summary: "Two numbers together, exactly.",
			Examples: []openrpc.ExamplePairing{
				openrpc.Pair("two numbers", list{5, 3}, 8),
				openrpc.Pair("decimals", list{0.1, 0.2}, jsonrpc.Raw("0.3")),
			},
			Errors: badParams,
		}},
		{"sum", jsonrpc.Func(sum), 0, openrpc.Doc{
			Summary:  "The sum of any number of numbers, by position.",
			Params:   []openrpc.ContentDescriptor{{Name: "numbers", Description: "the numbers to add; 0 without numbers"}},
			Examples: []openrpc.ExamplePairing{openrpc.Pair("three numbers", list{1, 2, 4}, 7)},
			Errors:   badParams,
		}},
		{"get_data", raw(getData), jsonrpc.Quick, openrpc.Doc{
			Summary:  "Always the same list.",
			Params:   noParams,
			Result:   &openrpc.ContentDescriptor{Schema: jsonrpc.Raw(`{"type":"array"}`)},
			Examples: []openrpc.ExamplePairing{openrpc.Pair("no params", nil, data)},
		}},
		{"echo", raw(echo), 0, openrpc.Doc{
			Summary:  "Its params, byte for byte; null without params.",
			Params:   anything,
			Examples: []openrpc.ExamplePairing{openrpc.Pair("a list", list{"hello", 1.0}, jsonrpc.Raw(`["hello",1]`))},
		}},
		{"update", raw(accept), jsonrpc.Quick, openrpc.Doc{
			Summary:  "Accepts any params, does nothing, returns null; intended for notifications.",
			Params:   anything,
			Result:   null,
			Examples: []openrpc.ExamplePairing{openrpc.Pair("five numbers", list{1, 2, 3, 4, 5}, nil)},
		}},
		{"notify_hello", raw(accept), jsonrpc.Quick, openrpc.Doc{
			Summary:  "Like update, under the name that the specification uses.",
			Params:   anything,
			Result:   null,
			Examples: []openrpc.ExamplePairing{openrpc.Pair("one number", list{7}, nil)},
		}},
		{"notify_sum", raw(accept), jsonrpc.Quick, openrpc.Doc{
			Summary:  "Like update, under another name that the specification uses.",
			Params:   anything,
			Result:   null,
			Examples: []openrpc.ExamplePairing{openrpc.Pair("three numbers", list{1, 2, 4}, nil)},
		}},
		{"fail", jsonrpc.Func(failAsAsked), jsonrpc.Quick, openrpc.Doc{
			Summary: "Returns the given error.",
			Result:  &openrpc.ContentDescriptor{Name: "result", Description: "never returned"},
			Errors:  badParams,
		}},
		{"sleep", jsonrpc.Func(sleep), jsonrpc.Unordered, openrpc.Doc{
			Summary:     "Waits for the given number of milliseconds and returns it.",
			Description: "It can be cancelled with `$/cancelRequest`, does not delay later requests, and can reach the server's deadline of one minute.",
			Examples:    []openrpc.ExamplePairing{openrpc.Pair("a quarter of a second", list{250}, 250)},
			Errors:      append(badParams, jsonrpc.ErrCancelled),
		}},
		{"panic", raw(panics), 0, openrpc.Doc{
			Summary: "The handler panics: shows the response that a caller gets, and that the server continues.",
			Params:  noParams,
			Errors:  []*jsonrpc.Error{jsonrpc.ErrInternal},
		}},
		{"countdown", jsonrpc.PeerFunc(countdown), jsonrpc.Unordered, openrpc.Doc{
			Summary:     "Notifies " + NotifyTick + " with each step, then responds.",
			Description: "A notification has the params `{request_id, left}`. Over HTTP they come on an event stream if the caller accepts one, and not at all otherwise.",
			Examples:    []openrpc.ExamplePairing{openrpc.Pair("three steps", list{3, 200}, "liftoff")},
			Errors:      badParams,
		}},
		{"ask", jsonrpc.PeerFunc(askCaller), jsonrpc.Unordered, openrpc.Doc{
			Summary:     "Calls your method " + CallAnswer + " with the question, and returns your answer.",
			Description: "Both sides of a connection can send requests. A plain POST cannot carry a request to the client, so it gets an error.",
			Examples:    []openrpc.ExamplePairing{openrpc.Pair("a question", list{"tea or coffee?"}, "tea")},
			Errors: append(badParams, jsonrpc.NewError(codeNoAnswer, "The client did not answer"),
				jsonrpc.NewError(codeOneWay, "The server cannot send requests over this transport")),
		}},
		{"login", jsonrpc.Func(s.sessions.login), 0, openrpc.Doc{
			Summary:     "Creates a token that identifies you to whoami and counter.",
			Description: "JSON-RPC has no sessions; a request that needs state names it in its params. The newest 1,000 tokens are stored.",
			Examples:    []openrpc.ExamplePairing{openrpc.Pair("a name", list{"ada"}, newTicket("GEZDGNBVGY3TQOJQGEZDGNBVGY"))},
			Errors:      badParams,
		}},
		{"whoami", jsonrpc.Func(s.sessions.whoami), 0, openrpc.Doc{
			Summary:  "The name that was passed to login.",
			Examples: []openrpc.ExamplePairing{openrpc.Pair("a token", list{"GEZDGNBVGY3TQOJQGEZDGNBVGY"}, Identity{Name: "ada"})},
			Errors:   badToken,
		}},
		{"counter", jsonrpc.Func(s.sessions.counter), 0, openrpc.Doc{
			Summary:  "Counts for the holder of a token, one by one or in steps.",
			Examples: []openrpc.ExamplePairing{openrpc.Pair("one step", list{"GEZDGNBVGY3TQOJQGEZDGNBVGY"}, 1)},
			Errors:   badToken,
		}},
		{"log_event", raw(s.events.addEvent), 0, openrpc.Doc{
			Summary:     "Stores its params, of any kind, and returns their number.",
			Description: "As a notification it shows the order: a later get_log includes it.",
			Params:      anything,
			Result:      &openrpc.ContentDescriptor{Schema: jsonrpc.Raw(`{"type":"integer"}`)},
			Examples:    []openrpc.ExamplePairing{openrpc.Pair("a text", list{"door opened"}, 1)},
			Errors:      badParams,
		}},
		{"get_log", jsonrpc.Func(s.events.getEvents), 0, openrpc.Doc{
			Summary:     "The events that log_event stored, oldest first.",
			Description: "The newest 1,000 events are stored, up to 1 MiB in total.",
			Examples: []openrpc.ExamplePairing{openrpc.Pair("the newest", list{1},
				jsonrpc.Raw(`[{"seq":1,"time":"2026-11-20T12:00:00Z","event":["door opened"]}]`))},
			Errors: badParams,
		}},
	}
}
