package jsonrpc

import (
	"errors"
	"strconv"
)

// AppendValue appends the JSON text of v to dst, encoded as in params and results: equal values
// give equal bytes, and a [Raw] is unchanged.
func AppendValue(dst []byte, v any) ([]byte, error) { return appendValue(dst, v) }

// AppendRequest appends a request to dst. If params is nil or a nil Raw, the member is omitted;
// otherwise it must encode as an object or an array.
func AppendRequest(dst []byte, v Version, id ID, method string, params any) ([]byte, error) {
	dst, err := appendCall(dst, v, method, params)
	if err != nil {
		return dst, err
	}
	return append(id.Append(dst), '}'), nil
}

// AppendNotification appends a notification to dst, with params as in [AppendRequest].
func AppendNotification(dst []byte, v Version, method string, params any) ([]byte, error) {
	dst, err := appendCall(dst, v, method, params)
	if err != nil {
		return dst, err
	}
	if v == Version1 {
		return append(dst, "null}"...), nil
	}
	dst = dst[:len(dst)-len(idMember)]
	return append(dst, '}'), nil
}

// idMember ends the output of appendCall; the id follows it.
const idMember = `,"id":`

// appendCall writes a request up to the value of its id. The id is last so that it can be chosen
// late.
func appendCall(dst []byte, v Version, method string, params any) ([]byte, error) {
	if v == Version1 {
		dst = append(dst, `{"method":`...)
	} else {
		dst = append(dst, `{"jsonrpc":"2.0","method":`...)
	}
	dst = AppendString(dst, method)
	const member = `,"params":`
	start := len(dst) + len(member)
	dst, err := appendParams(append(dst, member...), v, params)
	if err != nil {
		return dst, err
	}
	if len(dst) == start { // no params
		dst = dst[:start-len(member)]
		if v == Version1 {
			dst = append(dst, `,"params":[]`...)
		}
	}
	return append(dst, idMember...), nil
}

// appendParams appends the text of params, or nothing for nil.
func appendParams(dst []byte, v Version, params any) ([]byte, error) {
	if raw, ok := params.(Raw); params == nil || ok && raw == nil {
		return dst, nil
	}
	start := len(dst)
	dst, err := appendValue(dst, params)
	if err != nil {
		return dst, err
	}
	if c := dst[min(skipSpace(dst, start), len(dst)-1)]; c != '[' && (c != '{' || v == Version1) {
		return dst, errParams
	}
	return dst, nil
}

var errParams = errors.New("jsonrpc: params must be an object or an array (JSON-RPC 2.0, section 4.2)")

// AppendResult appends a response with result to dst.
func AppendResult(dst []byte, v Version, id ID, result any) ([]byte, error) {
	out, err := appendValue(appendResultHead(dst, v), result)
	if err != nil {
		return dst, err
	}
	return append(id.Append(appendResultTail(out, v)), '}'), nil
}

func appendResultHead(dst []byte, v Version) []byte {
	if v == Version1 {
		return append(dst, `{"result":`...)
	}
	return append(dst, `{"jsonrpc":"2.0","result":`...)
}

// appendResultTail ends the result. The caller appends the id and a brace.
func appendResultTail(dst []byte, v Version) []byte {
	if v == Version1 {
		dst = append(dst, `,"error":null`...)
	}
	return append(dst, idMember...)
}

// AppendError appends a response with e to dst.
func AppendError(dst []byte, v Version, id ID, e *Error) []byte {
	if v == Version1 {
		dst = append(dst, `{"result":null,"error":`...)
	} else {
		dst = append(dst, `{"jsonrpc":"2.0","error":`...)
	}
	dst, _ = e.AppendJSON(dst) // never fails
	return append(id.Append(append(dst, idMember...)), '}')
}

// AppendJSON appends the error object to dst.
func (e *Error) AppendJSON(dst []byte) ([]byte, error) {
	dst = strconv.AppendInt(append(dst, `{"code":`...), e.Code, 10)
	dst = AppendString(append(dst, `,"message":`...), e.Message)
	if e.Data != nil {
		dst = append(append(dst, `,"data":`...), e.Data...)
	}
	return append(dst, '}'), nil
}

// MarshalJSON returns the error object, so that an Error can be part of a larger value.
func (e *Error) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil) }

// UnmarshalJSON decodes an error object.
func (e *Error) UnmarshalJSON(text []byte) error {
	parsed, err := decodeError(text, Version2)
	if err != nil {
		return err
	}
	*e = *parsed
	return nil
}
