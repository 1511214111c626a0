package guard

import (
	"strings"

	"github.com/da1ed7bb/parley/internal/x/httptoken"
)

// An Acceptance is what a caller accepts as the response to a POST, by its Accept header.
type Acceptance uint8

const (
	AcceptsNothing Acceptance = iota
	AcceptsPlain              // JSON, and no stream
	AcceptsEither             // JSON, and a stream if a handler notifies
	AcceptsStream             // a stream from the start
)

// Accepted evaluates Accept (RFC 9110, section 12.5.1) for JSON and, unless noStream is set, event
// streams. Only a caller that names the event stream explicitly gets one in addition to JSON: many
// clients that cannot read one send "*/*". A caller that ranks it above JSON gets only streams.
func Accepted(accept []string, noStream bool) Acceptance {
	if len(accept) == 0 {
		return AcceptsPlain
	}
	if len(accept) == 1 {
		switch accept[0] {
		case "application/json", "*/*":
			return AcceptsPlain
		case "application/json, text/event-stream":
			if !noStream {
				return AcceptsEither
			}
		}
	}
	text, _ := Quality(accept, "application/json")
	events, named := Quality(accept, "text/event-stream")
	if noStream {
		events = 0
	}
	switch {
	case events > text && (named || text == 0):
		return AcceptsStream
	case text == 0:
		return AcceptsNothing
	case named && events > 0:
		return AcceptsEither
	}
	return AcceptsPlain
}

// Quality returns the weight of mediaType in a client's Accept headers (RFC 9110, sections 12.4.2
// and 12.5.1), from 0 (not acceptable) to 1000. The most specific range decides. named reports
// whether a range spells out the type without a wildcard.
//
// If there is no Accept header, or if no range in it can be parsed, everything is acceptable. A
// lone "*" is treated as "*/*" (Java's HttpURLConnection sends it). Parameters other than q do not
// narrow a range, because no type that we send has parameters.
func Quality(accept []string, mediaType string) (q int, named bool) {
	best, readable := 0, false // 1: */*, 2: type/*, 3: type/subtype
	for _, header := range accept {
		for rest := header; rest != ""; {
			var element string
			element, rest = cutElement(rest)
			kind, weight, narrowed, ok := parseRange(element)
			if !ok {
				continue
			}
			readable = true
			if narrowed && weight == 0 {
				continue // excludes only a more specific type than we send
			}
			fit := specificity(kind, mediaType)
			if fit > best || fit == best && fit > 0 && weight > q {
				best, q = fit, weight
			}
		}
	}
	if !readable {
		return 1000, false
	}
	return q, best == 3
}

func specificity(kind, mediaType string) int {
	if strings.EqualFold(kind, mediaType) {
		return 3
	}
	if kind == "*/*" || kind == "*" {
		return 1
	}
	if major, ok := strings.CutSuffix(kind, "/*"); ok {
		if want, _, _ := strings.Cut(mediaType, "/"); strings.EqualFold(major, want) {
			return 2
		}
	}
	return 0
}

// cutElement splits text at the first comma outside of quotes.
func cutElement(text string) (element, rest string) {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch {
		case quoted && text[i] == '\\':
			i++
		case text[i] == '"':
			quoted = !quoted
		case text[i] == ',' && !quoted:
			return text[:i], text[i+1:]
		}
	}
	return text, ""
}

// parseRange parses one media range with its weight in thousandths.
func parseRange(element string) (kind string, weight int, narrowed, ok bool) {
	kind, params, _ := strings.Cut(element, ";")
	kind = strings.Trim(kind, " \t")
	if kind != "*" {
		major, minor, slash := strings.Cut(kind, "/")
		if !slash || !httptoken.Valid(major) || !httptoken.Valid(minor) || major == "*" && minor != "*" {
			return "", 0, false, false
		}
	}
	weight = 1000
	for params != "" {
		var param string
		// A quoted semicolon splits a parameter that narrows the range in either case.
		param, params, _ = strings.Cut(params, ";")
		name, value, _ := strings.Cut(strings.Trim(param, " \t"), "=")
		switch {
		case strings.EqualFold(name, "q"):
			if weight, ok = parseWeight(value); !ok {
				return "", 0, false, false
			}
		case name != "" && !(strings.EqualFold(name, "charset") && strings.EqualFold(value, "utf-8")):
			narrowed = true
		}
	}
	return kind, weight, narrowed, true
}

// parseWeight parses 0 to 1 with up to three decimals. The leading zero may be missing, because
// some clients omit it.
func parseWeight(text string) (int, bool) {
	whole, part, _ := strings.Cut(text, ".")
	if len(part) > 3 || whole == "" && part == "" {
		return 0, false
	}
	n := 0
	for i := range 3 {
		n *= 10
		if i < len(part) {
			if part[i] < '0' || part[i] > '9' {
				return 0, false
			}
			n += int(part[i] - '0')
		}
	}
	switch whole {
	case "", "0":
		return n, true
	case "1":
		return 1000, n == 0
	}
	return 0, false
}
