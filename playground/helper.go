package playground

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/da1ed7bb/parley/capture"
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

// decodeLoosely reads what others wrote: members that we do not know are no mistake.
func decodeLoosely(raw []byte, v any) error {
	if len(raw) == 0 {
		return nil
	}
	return json.Unmarshal(raw, v, json.RejectUnknownMembers(false))
}

// raw is the JSON text of a value of ours.
func raw(v any) jsonrpc.Raw {
	text, err := jsonrpc.AppendValue(nil, v)
	if err != nil {
		return jsonrpc.Raw("null") // our own types can be written
	}
	return text
}

// isSecretHeader reports whether the value of a header is for the server alone.
func isSecretHeader(name string) bool {
	name = strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(name))
	for _, key := range capture.DefaultKeys {
		if tail, any := strings.CutPrefix(key, "*"); any && strings.HasSuffix(name, tail) || name == key {
			return true
		}
	}
	return strings.Contains(name, "token") || strings.Contains(name, "key")
}
