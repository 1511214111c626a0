package jsonrpc

import "errors"

// AppendValue adds the JSON text of v to dst, as params and results have it: equal values give equal bytes, and a [Raw] stays as it is.
func AppendValue(dst []byte, v any) ([]byte, error) { return appendValue(dst, v) }

// AppendRequest adds a request to dst. params that are nil, or a nil Raw, are left out; others must be encoded as an object or an array.
func AppendRequest(dst []byte, v Version, id ID, method string, params any) ([]byte, error) {
	dst, err := appendCall(dst, v, method, params)
	if err != nil {
		return dst, err
	}
	return append(id.Append(dst), '}'), nil
}

// AppendNotification adds a notification to dst, with params as in [AppendRequest].
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

// idMember stands at the end of what appendCall writes, for the id to follow.
const idMember = `,"id":`

// appendCall writes a request up to the value of its id, which is last so that it can be chosen late.
func appendCall(dst []byte, v Version, method string, params any) ([]byte, error) {
	if v == Version1 {
		dst = append(dst, `{"method":`...)
	} else {
		dst = append(dst, `{"jsonrpc":"2.0","method":`...)
	}
	dst = appendString(dst, method)
	const member = `,"params":`
	start := len(dst) + len(member)
	dst, err := appendParams(append(dst, member...), v, params)
	if err != nil {
		return dst, err
	}
	if len(dst) == start { // none
		dst = dst[:start-len(member)]
		if v == Version1 {
			dst = append(dst, `,"params":[]`...)
		}
	}
	return append(dst, idMember...), nil
}

// appendParams adds the text of params, nothing for nil.
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

// AppendResult adds the response that holds result to dst.
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

// appendResultTail ends the result. The id and a brace are to follow.
func appendResultTail(dst []byte, v Version) []byte {
	if v == Version1 {
		dst = append(dst, `,"error":null`...)
	}
	return append(dst, idMember...)
}

// AppendError adds the response that holds e to dst.
func AppendError(dst []byte, v Version, id ID, e *Error) []byte {
	if v == Version1 {
		dst = append(dst, `{"result":null,"error":`...)
	} else {
		dst = append(dst, `{"jsonrpc":"2.0","error":`...)
	}
	dst, _ = e.AppendJSON(dst) // never fails
	return append(id.Append(append(dst, idMember...)), '}')
}

// AppendJSON adds the error object to dst.
func (e *Error) AppendJSON(dst []byte) ([]byte, error) {
	dst, _ = appendValue(append(dst, `{"code":`...), e.Code)
	dst = appendString(append(dst, `,"message":`...), e.Message)
	if e.Data != nil {
		dst = append(append(dst, `,"data":`...), e.Data...)
	}
	return append(dst, '}'), nil
}

// MarshalJSON writes the error object, so that an Error can be part of a larger value.
func (e *Error) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil) }

// UnmarshalJSON reads an error object.
func (e *Error) UnmarshalJSON(text []byte) error {
	parsed, err := decodeError(text, Version2)
	if err != nil {
		return err
	}
	*e = *parsed
	return nil
}
