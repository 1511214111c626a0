package playground

import (
	"iter"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/da1ed7bb/parley/internal/x/secret"
	"github.com/da1ed7bb/parley/jsonrpc"
)

func orDefault(text, standard string) string {
	if text == "" {
		return standard
	}
	return text
}

func mapsKeys[K comparable, V any](m map[K]V) iter.Seq[K] { return maps.Keys(m) }

func deleteFunc[T any](list []T, f func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(list), f)
}

// decodeLoosely decodes JSON from other programs and ignores unknown members.
func decodeLoosely(raw []byte, v any) error {
	if len(raw) == 0 {
		return nil
	}
	return json.Unmarshal(raw, v, json.RejectUnknownMembers(false))
}

// raw encodes one of this package's values as JSON.
func raw(v any) jsonrpc.Raw {
	text, err := jsonrpc.AppendValue(nil, v)
	if err != nil {
		return jsonrpc.Raw("null") // the types of this package can be encoded
	}
	return text
}

// isSecretHeader reports whether the value of a header is secret.
func isSecretHeader(name string) bool { return secret.Header(name) }
