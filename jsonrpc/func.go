package jsonrpc

import (
	"context"
	"reflect"
	"sync"
)

// A Function is a [Handler] with a typed parameter and result. It is made by [Func] or [PeerFunc].
type Function struct {
	In, Out reflect.Type // what params are decoded into, and what is returned

	params *params
	handle func(ctx context.Context, req *Request) (any, error)
}

// Func makes a Handler of a function with typed params. In decides which params are taken:
//
//   - a struct takes both positional params, in the order of its fields, and named ones. The name of a field is that of
//     its json tag, or the field's name with a lower-case start (a caller that sends the same type wants tags: the codec
//     writes an untagged field's name as it is). A field is required unless it is a pointer or its tag
//     says omitzero or omitempty. An embedded struct stands for its fields. An empty struct takes none.
//   - a slice takes any number of positional params, an array so many.
//   - a map takes named params.
//   - [Raw] takes the params as they came, nil for none. A [Parser], and a type with its own UnmarshalJSON, gets the same bytes.
//   - any takes anything. Every other type takes exactly one positional param.
//
// What does not fit is answered with -32602 and a [ParamFault] in data. Params with an unknown member, or one that comes twice, do not fit.
func Func[In, Out any](f func(context.Context, In) (Out, error)) *Function {
	return newFunction(func(ctx context.Context, _ *Request, in In) (Out, error) { return f(ctx, in) })
}

// PeerFunc is [Func] for a function that talks back to its caller while it runs.
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

// A slot is the memory that params are read into. It is used again.
type slot[In any] struct {
	value In
	self  Parser // value, if it reads itself
}

// reader returns what reads params into an In.
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

// ParamsOf returns what reads params into an In by the rules of [Func], for who calls functions in another way. It panics for a type
// that Func panics for. What it returns is safe for concurrent use.
func ParamsOf[In any]() func(params Raw) (In, *ParamFault) {
	return reader[In](newParams(reflect.TypeFor[In]()))
}

// Handle decodes the params and calls the function.
func (f *Function) Handle(ctx context.Context, req *Request) (any, error) { return f.handle(ctx, req) }

// A Field is one parameter of a [Function] that takes a struct.
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

// Fields returns the parameters in the order of their positions: exactly what is taken. It is nil when In
// is no struct, or reads itself.
func (f *Function) Fields() []Field { return f.params.fields }

// A ParamFault is the data of an "Invalid params" error: where params did not fit, and why. A type that reads itself
// returns one to say what it wants; its Pointer then counts from the value it was given.
type ParamFault struct {
	Pointer string `json:"pointer"` // a JSON pointer into params (RFC 6901)
	Reason  string `json:"reason"`
}

func (p *ParamFault) Error() string { return "jsonrpc: params" + p.Pointer + ": " + p.Reason }

func (p *ParamFault) answer() *Error {
	data := appendString([]byte(`{"pointer":`), p.Pointer)
	data = appendString(append(data, `,"reason":`...), p.Reason)
	return &Error{Code: CodeInvalidParams, Message: ErrInvalidParams.Message, Data: append(data, '}')}
}
