package jsonrpc

import (
	"context"
	"reflect"
	"sync"
)

// A Function is a [Handler] with typed params and a typed result. Create it with [Func] or
// [PeerFunc].
type Function struct {
	In, Out reflect.Type // the types of the params and of the result

	params *params
	handle func(ctx context.Context, req *Request) (any, error)
}

// Func creates a Handler from a function with typed params. In decides which params are accepted:
//
//   - A struct accepts positional params, in the order of its fields, and named params. A field's
//     name is the name in its json tag, or the Go name with a lower-case first letter. A caller
//     that sends the same type needs tags: the codec writes an untagged field's name unchanged. A
//     field is required unless it is a pointer or its tag contains omitzero or omitempty. An
//     embedded struct stands for its fields. An empty struct accepts no params.
//   - A slice accepts any number of positional params, an array exactly its length.
//   - A map accepts named params.
//   - [Raw] receives the unchanged params, or nil without params. A [Parser], and a type with its
//     own UnmarshalJSON, receives the same bytes.
//   - any accepts everything. Every other type accepts exactly one positional param.
//
// Invalid params get a -32602 error with a [ParamFault] in data. An unknown or repeated member
// makes the params invalid.
func Func[In, Out any](f func(context.Context, In) (Out, error)) *Function {
	return newFunction(func(ctx context.Context, _ *Request, in In) (Out, error) { return f(ctx, in) })
}

// PeerFunc is [Func] for a function that calls or notifies its caller while it runs.
func PeerFunc[In, Out any](f func(context.Context, Peer, In) (Out, error)) *Function {
	return newFunction(func(ctx context.Context, req *Request, in In) (Out, error) { return f(ctx, req.Peer(), in) })
}

func newFunction[In, Out any](f func(context.Context, *Request, In) (Out, error)) *Function {
	in := reflect.TypeFor[In]()
	p := newParams(in)
	read := reader[In](p)
	return &Function{In: in, Out: reflect.TypeFor[Out](), params: p,
		handle: func(ctx context.Context, req *Request) (any, error) {
			arg, fault := read(req.Params)
			if fault != nil {
				return nil, fault.answer()
			}
			return f(ctx, req, arg)
		}}
}

// A slot is the memory for decoding params. It is reused.
type slot[In any] struct {
	value In
	self  Parser // value, if it is a Parser
}

// reader returns a function that decodes params into an In.
func reader[In any](p *params) func(Raw) (In, *ParamFault) {
	slots := sync.Pool{New: func() any {
		s := new(slot[In])
		s.self, _ = any(&s.value).(Parser)
		return s
	}}
	return func(text Raw) (In, *ParamFault) {
		s := slots.Get().(*slot[In])
		var fault *ParamFault
		if s.self != nil && text != nil {
			fault = faultAt("", s.self.ParseJSON(text))
		} else {
			fault = p.decode(text, &s.value)
		}
		arg := s.value
		s.value = *new(In)
		slots.Put(s)
		return arg, fault
	}
}

// ParamsOf returns a function that decodes params into an In by the rules of [Func], for callers
// that run functions in another way. It panics for the types that Func panics for. The returned
// function is safe for concurrent use.
func ParamsOf[In any]() func(params Raw) (In, *ParamFault) {
	t := reflect.TypeFor[In]()
	p, known := knownParams.Load(t)
	if !known {
		p, _ = knownParams.LoadOrStore(t, newParams(t))
	}
	return reader[In](p.(*params))
}

// knownParams stores what ParamsOf found about a type: many functions have the same.
var knownParams sync.Map

// Handle decodes the params and calls the function.
func (f *Function) Handle(ctx context.Context, req *Request) (any, error) { return f.handle(ctx, req) }

// A Field is one parameter of a [Function] whose In is a struct.
type Field struct {
	Name     string // on the wire
	Index    []int  // for reflect.Type.FieldByIndex
	Type     reflect.Type
	Required bool
	Doc      string // from the jsonschema tag

	quoted   string       // the name with quotes and colon
	plain    reflect.Kind // Int, Float64, String, Bool, or Slice for Raw; else Invalid
	nullable bool
}

// Fields returns all accepted parameters in the order of their positions. It is nil if In is not a
// struct, or decodes itself.
func (f *Function) Fields() []Field { return f.params.fields }

// FieldsOf returns the parameters that [Func] accepts if In is t, in the order of their positions.
// It is nil if t is neither a struct nor a pointer to one, or if it decodes itself. It panics for
// the types that Func panics for.
func FieldsOf(t reflect.Type) []Field { return newParams(t).fields }

// A ParamFault is the data of an "Invalid params" error: which param is invalid, and why. A
// [Parser] can return one with its own reason; its Pointer is then relative to the value that the
// Parser received.
type ParamFault struct {
	Pointer string `json:"pointer"` // a JSON pointer into params (RFC 6901)
	Reason  string `json:"reason"`
}

func (p *ParamFault) Error() string { return "jsonrpc: params" + p.Pointer + ": " + p.Reason }

func (p *ParamFault) answer() *Error {
	data := AppendString([]byte(`{"pointer":`), p.Pointer)
	data = AppendString(append(data, `,"reason":`...), p.Reason)
	return &Error{Code: CodeInvalidParams, Message: ErrInvalidParams.Message, Data: append(data, '}')}
}
