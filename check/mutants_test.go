package check_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/check"
	"github.com/da1ed7bb/parley/internal/x/race"
)

// A mutant is a defect of plainServer and a rule that must find it.
type mutant struct{ defect, rule, on string }

// causes are rules that make a defect visible to the rules about all messages of a family.
var causes = map[string][]string{
	"response": {"id", "params", "parse/example", "value/empty-name"},
	"error":    {"panic", "parse/example"},
	"http":     {"id/one", "error/unknown-method", "notification"},
	"parse":    {"id/one"},
	"framing":  {"id/one"},
	"ws":       {"id/one"},
}

const all = "http tcp ws"

// mutants are the defects, each with the first rule that has to fail.
var mutants = []mutant{
	{"id-as-string", "id/one", all}, {"id-as-number", "id/digits-in-string", all}, {"id-through-float", "id/2^53+1", all}, {"id-integer", "id/fraction", all},
	{"id-lower-case", "id/case-in-string", all}, {"id-zero-is-null", "id/zero", all}, {"id-empty-is-null", "id/empty-string", all}, {"id-cut", "id/hundreds", all},
	{"id-32-bit", "id/2^53+1", all}, {"id-trimmed", "id/spaces", all}, {"id-ascii", "id/unicode", all}, {"id-abs", "id/negative", all},
	{"null-id-is-notification", "id/null", all}, {"any-id", "id/not-true", all}, {"bad-id-echoed", "id/not-true", all},
	{"no-version", "response/version", all}, {"version-1.0", "response/version", all}, {"version-as-number", "response/version", all}, {"version-upper", "response/version", all},
	{"error-null-beside-result", "response/either", all}, {"result-also-error", "response/either", all}, {"result-null-beside-error", "response/either", all},
	{"omits-null-result", "response/either", all}, {"omits-empty-result", "response/either", all}, {"unknown-member", "response/members", all}, {"result-twice", "response/members", all},
	{"result-no-id", "response/id", all}, {"error-no-id", "response/id", all}, {"error-id-null", "error/unknown-method", all}, {"bom", "response/json", all}, {"pretty", "response/json", "tcp"},
	{"code-string", "error/code", all}, {"code-float", "error/code", all}, {"code-missing", "error/code", all}, {"message-missing", "error/message", all},
	{"message-null", "error/message", all}, {"message-object", "error/message", all}, {"error-string", "error/object", all}, {"error-unknown-member", "error/members", all},
	{"parse-error-silent", "parse/example", all}, {"parse-error-is-32600", "parse/example", all}, {"parse-error-is-32603", "parse/example", all}, {"parse-error-last-id", "parse/example", all},
	{"parse-error-id-zero", "parse/example", all}, {"parse-error-no-id", "response/id", all}, {"trailing-garbage", "parse/garbage-after", all}, {"trailing-comma", "parse/trailing-comma", all},
	{"parse-error-in-batch-array", "parse/batch-example", all}, {"invalid-request-is-32700", "request/method-number", all}, {"invalid-request-is-32602", "request/method-number", all},
	{"invalid-request-silent", "request/method-number", all}, {"version-not-checked", "request/version-1.0", all}, {"version-may-be-missing", "request/no-version", all},
	{"version-number", "request/version-number", all}, {"version-prefix", "request/version-2", all}, {"method-any-type", "request/method-number", all}, {"names-any-case", "request/case-method", all},
	{"scalar-params", "params/not-number", all}, {"unknown-method-is-null", "error/unknown-method", all}, {"unknown-method-is-32600", "error/unknown-method", all},
	{"unknown-method-is-32000", "error/unknown-method", all}, {"unknown-method-is-32800", "error/reserved", all}, {"method-any-case", "method/case-upper", all},
	{"method-trimmed", "method/space-after", all}, {"method-prefix", "method/prefix", all}, {"method-until-nul", "method/nul-after", all}, {"method-last-part", "method/namespace", all},
	{"rpc-open", "rpc/unknown", all}, {"invalid-params-is-32603", "params/wrong-type", all}, {"invalid-params-is-32600", "params/wrong-type", all},
	{"panic-is-32000", "panic/code", all}, {"panic-leaks", "error/leak", all}, {"panic-ends-server", "panic/server", all}, {"panic-is-result", "panic/response", all},
	{"notification-answered", "notification/known", all}, {"failing-notification-answered", "notification/failing", all}, {"unknown-notification-answered", "notification/unknown-method", all},
	{"batch-notification-answered", "batch/with-notification", all}, {"wrong-params-notification-answered", "notification/wrong-params", all},
	{"no-batches", "batch/one", all}, {"empty-batch-empty-array", "batch/empty", all}, {"empty-batch-silent", "batch/empty", all}, {"empty-batch-in-array", "batch/empty", all},
	{"batch-stops-at-error", "batch/mixed-results", all}, {"batch-loses-last", "batch/hundred", all}, {"batch-over-64-loses", "batch/hundred", all}, {"batch-doubles", "batch/two", all},
	{"batch-of-one-single", "batch/one", all}, {"batch-single", "batch/two", all}, {"batch-lines", "batch/two", all}, {"notifications-empty-array", "batch/notifications", all},
	{"invalid-in-batch-silent", "batch/three-invalid", all}, {"invalid-in-batch-has-id-zero", "batch/three-invalid", all},
	{"loses-every-50th", "load/connections", all}, {"crosses-ids", "load/connections", all}, {"one-at-a-time", "load/second-connection", all}, {"serial", "load/second-call", "tcp ws"},
	{"params-remembered", "state/params-not-remembered", all}, {"params-merged", "state/params-not-remembered", all}, {"data-remembered", "state/error-not-remembered", all},
	{"through-float", "value/2^53", all}, {"drops-null-members", "value/member-null", all}, {"names-lower-case", "value/case-of-names", all}, {"empty-array-is-null", "params/empty-array", all},
	{"empty-object-is-array", "params/empty-object", all}, {"cut-at-64-KiB", "survival/half-megabyte", all}, {"html-stripped", "value/html", all}, {"nul-lost", "value/nul", all},
	{"unicode-lost", "value/unicode", all}, {"string-trimmed", "value/white-space-in-strings", all}, {"result-wrapped", "params/positional", all}, {"result-as-string", "params/positional", all},
	{"one-is-unwrapped", "value/one-null", all}, {"negative-zero", "value/negative-zero", all},
	{"data-lost", "fail/data-object", all}, {"data-falsy-lost", "fail/data-false", all}, {"data-as-string", "fail/data-object", all}, {"code-is-32000", "fail/plain", all},
	{"code-positive", "fail/negative", all}, {"message-standard", "fail/plain", all}, {"message-empty-replaced", "fail/message-empty", all},
	{"names-ignored", "params/order-of-names", all}, {"names-fold", "params/case", all}, {"positions-swapped", "params/order-of-positions", all}, {"named-unsupported", "params/same-by-name", all},
	{"positional-unsupported", "params/order-of-positions", all}, {"wrong-types-are-zero", "params/wrong-type", all},
	{"http-any-method", "http/method-put", "http"}, {"http-get-200", "http/get", "http"}, {"http-close", "http/keep-alive", "http"}, {"http-200-for-notification", "http/notification-status", "http"},
	{"http-body-for-notification", "notification/known", "http"}, {"http-text", "http/content-type", "http"}, {"http-length", "http/length", "http"}, {"http-gzip", "http/encoding", "http"},
	{"http-404", "http/status", "http"}, {"http-500", "http/status", "http"}, {"http-parse-error-page", "parse/example", "http"},
	{"tcp-no-newline", "framing/newline", "tcp"}, {"tcp-crlf", "framing/crlf", "tcp"}, {"one-message-per-read", "framing/one-write", "tcp"},
	{"closes-after-parse-error", "connection/after-parse-error", "tcp ws"}, {"closes-after-panic", "panic/connection", "tcp ws"}, {"closes-after-unknown-method", "connection/after-unknown-method", "tcp ws"},
	{"message-empty", "error/message-empty", all}, {"dies-of-notifications", "load/notifications", all}, {"http-options-calls", "http/method-options", "http"},
	{"rejects-unknown-members", "request/unknown-member", all}, {"responses-are-calls", "request/response", all}, {"duplicate-member-silent", "request/duplicate-member", all},
	{"byte-order-mark-silent", "request/byte-order-mark", all}, {"null-params-silent", "params/null", all},
	{"message-unescaped", "error/unknown-method/quotes", all}, {"id-over-1024-is-null", "id/thousands", all}, {"batch-not-trimmed", "batch/leading-space", all},
	{"batch-through-float", "batch/values", all}, {"batch-loses-data", "batch/errors", all}, {"batch-by-id", "batch/duplicate-ids", all},
	{"duplicate-id-dropped", "load/duplicate-ids", "tcp ws"}, {"same-id-joined", "load/same-id", all}, {"errors-shared", "load/errors", all},
	{"code-zero-lost", "fail/zero", all}, {"message-cut", "fail/message-long", all}, {"message-control-lost", "fail/message-control", all}, {"decimals-cut", "params/decimals", all},
	{"prototype-lost", "value/names-of-prototypes", all}, {"templates-filled", "value/templates", all}, {"duplicates-removed", "value/repeated", all}, {"loses-4096-bytes", "value/sizes", all},
	{"hex-numbers", "parse/hex-number", all}, {"bare-fractions", "parse/bare-fraction", all}, {"form-feeds", "parse/form-feed", all}, {"missing-values", "parse/missing-value", all},
	{"http-no-continue", "http/expect-continue", "http"}, {"http-1.0-refused", "http/http-1.0", "http"}, {"http-needs-accept", "http/no-accept", "http"}, {"http-close-ignored", "http/close", "http"},
	{"http-unknown-header", "http/unknown-header", "http"}, {"http-names-lower", "http/header-case", "http"}, {"http-names-upper", "http/header-case/upper", "http"},
	{"http-one-request-per-read", "http/pipelined", "http"}, {"http-charset-refused", "http/charset", "http"},
	{"lsp-case", "framing/lower-case", "lsp"}, {"lsp-needs-space", "framing/no-space", "lsp"}, {"lsp-no-content-type", "framing/content-type", "lsp"},
	{"lsp-length-in-characters", "framing/length-in-bytes", "lsp"}, {"lsp-line-feeds", "framing/header", "lsp"},
	{"ws-no-fragments", "ws/fragments", "ws"}, {"ws-control-within-ends", "ws/ping-between-fragments", "ws"}, {"ws-pong-ends", "ws/pong", "ws"},
	{"ws-no-close-frame", "ws/close-frame", "ws"},
	{"ws-accept", "ws/handshake", "ws"}, {"ws-masked", "ws/frames", "ws"}, {"ws-no-pong", "ws/ping", "ws"}, {"ws-empty-pong", "ws/ping", "ws"}, {"ws-binary", "ws/text", "ws"},
}

// hardMutants are defects that are found only with Options.Hard.
var hardMutants = []mutant{
	{"dies-of-depth", "hard/depth-1000", all}, {"dies-of-depth", "hard/depth-10000", all}, {"dies-of-depth", "hard/depth-100000", all}, {"dies-of-depth", "hard/depth-objects", all},
	{"dies-of-depth", "hard/depth-unclosed", all}, {"dies-of-length", "hard/long-number", all}, {"dies-of-exponents", "hard/long-exponent", all},
	{"dies-of-exponents", "hard/numbers-for-named", all}, {"dies-of-length", "hard/many-members", all}, {"dies-of-length", "hard/long-id", all}, {"dies-of-length", "hard/long-method", all},
	{"cut-at-a-mebibyte", "hard/two-mebibytes", all}, {"dies-of-length", "hard/eight-mebibytes", all}, {"batch-loses-last", "hard/batch-of-5000", all}, {"dies-of-invalid-batches", "hard/batch-of-invalid", all},
	{"dies-of-parse-errors", "hard/parse-errors", all}, {"loses-every-50th", "hard/flood", "tcp ws"}, {"panic-ends-server", "hard/panics", all}, {"long-call-fails", "hard/long-call", all}, {"closes-when-idle", "hard/idle-connection", "tcp ws"},
	{"one-writer", "hard/unread-responses", "tcp"}, {"thirty-connections", "hard/many-connections", "tcp"}, {"loses-every-50th", "hard/thousand-calls", all},
	{"lsp-dies-of-length", "hard/broken-length", "lsp"}, {"dies-of-broken-requests", "hard/broken-requests", "http"},
	{"ws-unmasked", "ws/unmasked", "ws"}, {"ws-reserved-bits", "ws/reserved-bits", "ws"}, {"ws-reserved-opcode", "ws/reserved-opcode", "ws"}, {"ws-bad-utf8-ignored", "ws/invalid-utf8", "ws"},
}

// TestMutants runs one check for each defect, over one of its transports in turn, and requires that
// its rule fails and that the verdict does. Under the race detector it does so for every eighth.
func TestMutants(t *testing.T) {
	if len(mutants) < 60 {
		t.Fatalf("%d mutants", len(mutants))
	}
	for i, m := range slices.Concat(mutants, hardMutants) {
		hard := i >= len(mutants)
		if race.Enabled && (i%8 != 0 || hard) {
			continue
		}
		t.Run(m.defect+"/"+m.rule, func(t *testing.T) {
			t.Parallel()
			on := strings.Fields(m.on)
			if !everyTransport {
				on = on[i%len(on):][:1]
			}
			at := serve(t, &plainServer{defect: m.defect})
			for _, name := range on {
				o := everything()
				o.Timeout, o.Budget = time.Second, time.Minute
				o.Hard = hard
				o.Only = []string{m.rule}
				if family, _, _ := strings.Cut(m.rule, "/"); causes[family] != nil {
					o.Only = append([]string{family}, causes[family]...)
				}
				report := run(t, at[name], o)
				i := slices.IndexFunc(report.Rules, func(r check.Result) bool { return r.ID == m.rule })
				switch {
				case i < 0:
					t.Errorf("%s: no rule %s", name, m.rule)
				case report.Rules[i].Outcome != check.Fail || report.Rules[i].Why == "":
					var failed []string
					for _, r := range report.Rules {
						if r.Outcome == check.Fail {
							failed = append(failed, r.ID)
						}
					}
					t.Errorf("%s: %s passed; failed: %v", name, m.rule, failed)
				case report.Verdict != check.Fail:
					t.Errorf("%s: the verdict is %s", name, report.Verdict)
				}
			}
		})
	}
}
