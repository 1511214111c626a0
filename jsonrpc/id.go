package jsonrpc

import (
	"errors"
	"strconv"
)

// An ID names one call (JSON-RPC 2.0, section 4). It is a string, a number or null, and it keeps the
// exact text that was on the wire: 1, 1.0, "1" and 9007199254740993 are four different IDs, and each is
// answered as it came. The zero ID means that the member was absent, which makes a request a notification.
//
// IDs are comparable with == and are usable as map keys. A non-negative integer of at most 18 digits costs no allocation.
type ID struct {
	n uint64 // an integer in its canonical form, plus one; zero when s holds the text
	s string // the JSON text of anything else
}

// NullID is the id that answers a request which nobody could read (JSON-RPC 2.0, section 5).
var NullID = ID{s: "null"}

// maxCompact is the first integer whose ID is kept as text: it has 19 digits.
const maxCompact = 1_000_000_000_000_000_000

// IntID makes the ID of an integer.
func IntID(n int64) ID {
	if n >= 0 && n < maxCompact {
		return ID{n: uint64(n) + 1}
	}
	return ID{s: strconv.FormatInt(n, 10)}
}

// StringID makes the ID of a string. Invalid UTF-8 in s is replaced by U+FFFD.
func StringID(s string) ID {
	return ID{s: string(appendString(nil, s))}
}

// ParseID reads the JSON text of an ID. It returns an error for anything but one string, number or null
// without white space around it.
func ParseID(text []byte) (ID, error) {
	s := defaultScanner()
	end, err := s.value(text, 0)
	if err != nil || end != len(text) || text[0] <= ' ' || !isScalarID(text) || s.lone {
		return ID{}, errors.New("jsonrpc: an id is a string, a number or null")
	}
	return idOf(text), nil
}

// isScalarID reports whether the valid JSON value in text may be an id.
func isScalarID(text []byte) bool {
	switch text[0] {
	case '{', '[', 't', 'f':
		return false
	}
	return true
}

// idOf makes the ID of a value that is known to be a string, a number or null.
func idOf(text []byte) ID {
	if n, ok := compactInt(text); ok {
		return ID{n: n + 1}
	}
	if len(text) == 4 && text[0] == 'n' {
		return NullID
	}
	return ID{s: string(text)}
}

// compactInt reads digits without sign, fraction, exponent or leading zero.
func compactInt(text []byte) (uint64, bool) {
	if len(text) == 0 || len(text) > 18 || (text[0] == '0' && len(text) > 1) {
		return 0, false
	}
	var n uint64
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	return n, true
}

// IsZero reports whether the id was absent.
func (id ID) IsZero() bool { return id == ID{} }

// IsNull reports whether the id is null, which is not the same as absent.
func (id ID) IsNull() bool { return id == NullID }

// Names reports whether id names the call that own stands for: it is the same id, or the same string with other
// escapes, which some peers make of text that is not ASCII.
func (id ID) Names(own ID) bool {
	return id == own || len(id.s) >= 2 && id.s[0] == '"' && isEscaped([]byte(id.s)) && StringID(textOf([]byte(id.s))) == own
}

// Int returns the integer behind the id, if it is one in canonical form that fits.
func (id ID) Int() (int64, bool) {
	if id.n != 0 {
		return int64(id.n - 1), true
	}
	n, err := strconv.ParseInt(id.s, 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == id.s
}

// Append adds the JSON text of the id to dst. The absent id is written as null.
func (id ID) Append(dst []byte) []byte {
	switch {
	case id.n != 0:
		return strconv.AppendUint(dst, id.n-1, 10)
	case id.s == "":
		return append(dst, "null"...)
	default:
		return append(dst, id.s...)
	}
}

// String returns the JSON text of the id, and "" for the absent one.
func (id ID) String() string {
	if id.n != 0 {
		return strconv.FormatUint(id.n-1, 10)
	}
	return id.s
}

// MarshalJSON writes the text that the id came with, so that an ID can be a field of params or results.
func (id ID) MarshalJSON() ([]byte, error) { return id.Append(nil), nil }

// UnmarshalJSON keeps the text of a string, a number or null.
func (id *ID) UnmarshalJSON(text []byte) error {
	parsed, err := ParseID(text)
	if err != nil {
		return err
	}
	*id = parsed
	return nil
}
