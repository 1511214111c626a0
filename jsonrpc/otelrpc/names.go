package otelrpc

import (
	"context"
	"errors"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"go.opentelemetry.io/otel/attribute"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// Attributes of the semantic conventions v1.44.0.
const (
	keySystem         = attribute.Key("rpc.system.name")
	keyMethod         = attribute.Key("rpc.method")
	keyMethodOriginal = attribute.Key("rpc.method_original") // spans only
	keyErrorType      = attribute.Key("error.type")
	keyVersion        = attribute.Key("jsonrpc.protocol.version") // spans only, like all below
	keyRequestID      = attribute.Key("jsonrpc.request.id")
	keyTransport      = attribute.Key("network.transport")
	keyPeerAddress    = attribute.Key("network.peer.address")
	keyPeerPort       = attribute.Key("network.peer.port")
	keyServerAddress  = attribute.Key("server.address") // also in measurements of clients
	keyServerPort     = attribute.Key("server.port")

	// keyStatusCode becomes "rpc.status_code" in the version after v1.44.0.
	keyStatusCode = attribute.Key("rpc.response.status_code")
)

const (
	system    = "jsonrpc"
	other     = "_OTHER"
	scope     = "github.com/da1ed7bb/parley/jsonrpc/otelrpc"
	schemaURL = "https://opentelemetry.io/schemas/1.44.0"

	serverDuration = "rpc.server.call.duration"
	clientDuration = "rpc.client.call.duration"
)

// buckets holds the bucket bounds of both histograms, in seconds (rpc-metrics.md).
var buckets = []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10}

// failures maps local errors to values of error.type. For errors from the peer it is their code.
var failures = []struct {
	err  error
	kind string
}{
	{jsonrpc.ErrTimeout, "timeout"}, // also context.DeadlineExceeded, see failure
	{context.DeadlineExceeded, "timeout"},
	{context.Canceled, "cancelled"},
	{jsonrpc.ErrPeerCancelled, "cancelled"},
	{jsonrpc.ErrClosed, "closed"},
	{jsonrpc.ErrBusy, "busy"},
	{jsonrpc.ErrBadResponse, "bad_response"},
	{jsonrpc.ErrTooLarge, "too_large"},
	{jsonrpc.ErrOneWay, "one_way"},
	{jsonrpc.ErrAnswered, "answered"},
	{jsonrpc.ErrLagging, "lagging"},
	{jsonrpc.ErrBatchRefused, "batch_refused"},
	{jsonrpc.ErrGarbage, "garbage"},
	{jsonrpc.ErrSlowPeer, "slow_peer"},
}

// failure returns the error.type of a local error: one of a few values, because it is part of a
// time series.
func failure(err error) string {
	for _, f := range failures {
		if errors.Is(err, f.err) {
			return f.kind
		}
	}
	return other
}

// maxText bounds the text that a peer can write to an attribute, in bytes.
const maxText = 256

// idText returns an ID as an attribute: a string without its quotes, a number as it was written. It
// returns false for absent and null IDs.
func idText(id jsonrpc.ID) (string, bool) {
	if id.IsZero() || id.IsNull() {
		return "", false
	}
	text := id.String()
	if text[0] == '"' {
		if plain, err := jsontext.AppendUnquote(nil, text); err == nil {
			text = string(plain)
		}
	}
	return cut(text), true
}

func cut(text string) string {
	if len(text) <= maxText {
		return text
	}
	n := maxText
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
