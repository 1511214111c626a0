package guard

import "strings"

// Quality returns how much the client wants mediaType, from 0 (not at all) to 1000, by its Accept headers (RFC 9110,
// sections 12.4.2 and 12.5.1). The most specific range decides. named tells that a range spelled the type out, without a wildcard.
//
// No Accept header, and one in which nothing can be read, mean that everything is welcome. A lone "*" is read as "*/*" (Java's
// HttpURLConnection sends it). Parameters other than q do not narrow a range: no type that we send has any.
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
				continue // excludes something more special than we send
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

// cutElement splits at the next comma outside of quotes.
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

// parseRange reads one media range with its weight in thousandths.
func parseRange(element string) (kind string, weight int, narrowed, ok bool) {
	kind, params, _ := strings.Cut(element, ";")
	kind = strings.Trim(kind, " \t")
	if kind != "*" {
		major, minor, slash := strings.Cut(kind, "/")
		if !slash || !isToken(major) || !isToken(minor) || major == "*" && minor != "*" {
			return "", 0, false, false
		}
	}
	weight = 1000
	for params != "" {
		var param string
		param, params, _ = strings.Cut(params, ";") // a quoted semicolon cuts in two what narrows the range either way
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

// parseWeight reads 0 to 1 with up to three decimals. The leading zero may be missing, as some clients have it.
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

func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}
