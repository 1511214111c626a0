package config

import (
	"fmt"
	"math"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/da1ed7bb/parley/internal/x/glob"
	"github.com/da1ed7bb/parley/internal/x/similar"
)

// This file has the typed values of settings. Each function changes nothing if the field is nil,
// which is a member that is missing, and records a problem if the value does not fit.

// maxList is the maximum number of elements of a list of settings.
const maxList = 1000

// members reports whether the value is a mapping, and records its unknown members.
func (f *field) members(known ...string) bool {
	if f == nil {
		return false
	}
	if f.n.kind != isMap {
		f.fail("is %s, but must be a mapping", kindNames[f.n.kind])
		return false
	}
	for _, m := range f.n.members {
		if !slices.Contains(known, m.name) {
			f.r.unknown(m, f.path, known)
		}
	}
	return true
}

// unknown records a member that is not known.
func (r *reader) unknown(m member, path string, known []string) {
	r.problem(m.line, m.column, strings.TrimPrefix(path+"."+m.name, "."), "unknown member%s", r.didYouMean(m.name, known))
}

// didYouMean returns the names of all that are similar to name, as the end of a problem.
func (r *reader) didYouMean(name string, all []string) string {
	if len(r.file.Problems) >= maxProblems {
		return "" // the problem is not recorded
	}
	near := similar.Names(name, all)
	if len(near) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(near, " or ") + "?"
}

// shown returns the value of a field for a problem, as it is in the file.
func (f *field) shown() string {
	text := f.n.text
	if len(text) > 60 {
		text = strings.ToValidUTF8(text[:60], "") + "…"
	}
	return strconv.Quote(text)
}

// elements returns the elements of a list.
func (f *field) elements() []*field {
	if f == nil {
		return nil
	}
	if f.n.kind != isList {
		f.fail("is %s, but must be a list", kindNames[f.n.kind])
		return nil
	}
	list := make([]*field, 0, min(len(f.n.items), maxList))
	for i, item := range f.n.items {
		if i == maxList {
			f.fail("has more than %d elements", maxList)
			break
		}
		list = append(list, &field{f.r, f.e, item, fmt.Sprintf("%s[%d]", f.path, i)})
	}
	return list
}

// oneOrMore returns the elements of a list, or the field itself if it is a scalar.
func (f *field) oneOrMore() []*field {
	if f == nil {
		return nil
	}
	switch f.n.kind {
	case isList:
		if len(f.n.items) == 0 {
			f.fail("is an empty list")
		}
		return f.elements()
	case isMap:
		f.fail("is a mapping, but must be a text or a list of texts")
		return nil
	}
	return []*field{f}
}

// word returns a text that is not empty, with its variables expanded.
func (f *field) word(secret bool) (string, bool) {
	if f == nil {
		return "", false
	}
	before := f.r.found
	text := f.text(secret)
	if f.r.found == before && text == "" {
		f.fail("is empty")
	}
	return text, f.r.found == before
}

// scalar returns the text of a scalar of a kind. A text with variables is accepted for any kind.
func (f *field) scalar(want kind) (string, bool) {
	if f == nil {
		return "", false
	}
	if f.n.kind == isText && strings.Contains(f.n.text, "${") {
		return f.word(false)
	}
	if f.n.kind != want {
		f.fail("is %s, but must be %s", kindNames[f.n.kind], kindNames[want])
		return "", false
	}
	return f.n.text, true
}

// truth reads true or false.
func (f *field) truth(to *bool) {
	switch text, ok := f.scalar(isBool); {
	case !ok:
	case text == "true":
		*to = true
	case text == "false":
		*to = false
	default:
		f.fail("must be true or false")
	}
}

// count reads a whole number.
func (f *field) count(to *int, low, high int) {
	text, ok := f.scalar(isNumber)
	if !ok {
		return
	}
	n, err := strconv.ParseInt(text, 0, 64)
	if err != nil {
		f.fail("must be a whole number from %d to %d", low, high)
		return
	}
	if n < int64(low) || n > int64(high) {
		f.fail("is %d, but must be from %d to %d", n, low, high)
		return
	}
	*to = int(n)
}

// ratio reads a number above 0 and up to 1.
func (f *field) ratio(to *float64) {
	text, ok := f.scalar(isNumber)
	if !ok {
		return
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) || n <= 0 || n > 1 {
		f.fail("must be a number above 0 and at most 1")
		return
	}
	*to = n
}

var (
	durationForm = regexp.MustCompile(`^([0-9]{1,12}(\.[0-9]{1,9})?(ms|s|m|h))+$`)
	spokenTime   = regexp.MustCompile(`(?i)^([0-9]{1,6})\s*([a-z]+)$`)
	sizeForm     = regexp.MustCompile(`^([0-9]{1,15})(B|KiB|MiB|GiB|TiB)$`)
	spokenSize   = regexp.MustCompile(`(?i)^([0-9]{1,15})\s*([kmgt])i?b?$`)
	rateForm     = regexp.MustCompile(`^([0-9]{1,9})/(s|m|h)$`)
	spokenRate   = regexp.MustCompile(`(?i)^([0-9]{1,9})\s*(?:/|per|r?p)\s*([smh])[a-z]*$`)
)

// spokenUnits are other spellings of units of time.
var spokenUnits = map[string]string{
	"msec": "ms", "msecs": "ms", "millis": "ms", "milliseconds": "ms", "ms": "ms",
	"sec": "s", "secs": "s", "second": "s", "seconds": "s", "s": "s",
	"min": "m", "mins": "m", "minute": "m", "minutes": "m", "m": "m",
	"hr": "h", "hrs": "h", "hour": "h", "hours": "h", "h": "h",
}

// quantity returns the text of a number with a unit. usual and other are the units that an error
// suggests for a number without one.
func (f *field) quantity(usual, other string) (text string, ok bool) {
	if f.n.kind == isNumber {
		f.fail("is a number without a unit; did you mean %s%s or %s%s?", f.n.text, usual, f.n.text, other)
		return "", false
	}
	return f.scalar(isText)
}

// duration reads a time with its unit, such as 500ms, 30s or 1m30s.
func (f *field) duration(to *time.Duration, low, high time.Duration) {
	if f == nil {
		return
	}
	text, ok := f.quantity("s", "ms")
	if !ok {
		return
	}
	d, err := time.ParseDuration(text)
	if err != nil || !durationForm.MatchString(text) {
		hint := "; write it as 500ms, 30s or 5m"
		if m := spokenTime.FindStringSubmatch(text); m != nil {
			switch unit, days := spokenUnits[strings.ToLower(m[2])], strings.TrimSuffix(strings.ToLower(m[2]), "s"); {
			case unit != "":
				hint = "; did you mean " + m[1] + unit + "?"
			case days == "d" || days == "day":
				n, _ := strconv.Atoi(m[1]) // six digits
				hint = fmt.Sprintf("; did you mean %dh?", 24*n)
			}
		}
		f.fail("%s is not a duration%s", f.shown(), hint)
		return
	}
	if d < low || d > high {
		f.fail("is %s, but must be from %s to %s", text, shortDuration(low), shortDuration(high))
		return
	}
	*to = d
}

// shortDuration formats a duration as configuration files have it: 1h and not 1h0m0s.
func shortDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = text[:len(text)-2]
	}
	if strings.HasSuffix(text, "h0m") {
		text = text[:len(text)-2]
	}
	return text
}

// size reads a number of bytes with its unit, such as 64MiB.
func (f *field) size(to *int64, low, high int64) {
	if f == nil {
		return
	}
	text, ok := f.quantity("MiB", "B")
	if !ok {
		return
	}
	m := sizeForm.FindStringSubmatch(text)
	if m == nil {
		hint := "; write it as 512KiB, 64MiB or 1GiB"
		if m := spokenSize.FindStringSubmatch(text); m != nil {
			hint = "; did you mean " + m[1] + strings.ToUpper(m[2]) + "iB?"
		}
		f.fail("%s is not a size%s", f.shown(), hint)
		return
	}
	n, _ := strconv.ParseInt(m[1], 10, 64) // 15 digits
	for range strings.Index("BKMGT", m[2][:1]) {
		n = min(n, math.MaxInt64>>10) << 10
	}
	if n < low || n > high {
		f.fail("is %s, but must be from %s to %s", text, shortSize(low), shortSize(high))
		return
	}
	*to = n
}

func shortSize(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for n != 0 && n%1024 == 0 && i < len(units)-1 {
		n /= 1024
		i++
	}
	return strconv.FormatInt(n, 10) + units[i]
}

// maxRate is the maximum count of a rate.
const maxRate = 1_000_000

// rate reads a number of calls in a time, such as 100/s.
func (f *field) rate(to *Rate) {
	if f == nil {
		return
	}
	if f.n.kind == isNumber {
		f.fail("is a number without a unit; did you mean %s/s?", f.n.text)
		return
	}
	text, ok := f.scalar(isText)
	if !ok {
		return
	}
	m := rateForm.FindStringSubmatch(text)
	if m == nil {
		hint := "; write it as 100/s, 10/m or 1000/h"
		if m := spokenRate.FindStringSubmatch(text); m != nil {
			hint = "; did you mean " + m[1] + "/" + strings.ToLower(m[2]) + "?"
		}
		f.fail("%s is not a rate%s", f.shown(), hint)
		return
	}
	n, _ := strconv.Atoi(m[1]) // nine digits
	if n < 1 || n > maxRate {
		f.fail("is %s, but the count must be from 1 to %d", text, maxRate)
		return
	}
	*to = Rate{n, map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}[m[2]]}
}

// choice reads one of some words.
func (f *field) choice(to *string, words ...string) {
	if f == nil {
		return
	}
	text, ok := f.word(false)
	if !ok {
		return
	}
	if !slices.Contains(words, text) {
		last := len(words) - 1
		f.fail("%s is not known: use %s or %s%s", f.shown(), strings.Join(words[:last], ", "), words[last], f.r.didYouMean(text, words))
		return
	}
	*to = text
}

// isOff reports whether a mechanism is switched off.
func (f *field) isOff() bool {
	return f != nil && (f.n.kind == isText && f.n.text == "off" || f.n.kind == isBool && f.n.text == "false")
}

// file reads the name of a file, relative to the folder of the configuration.
func (f *field) file(to *string) {
	if text, ok := f.word(false); ok {
		if strings.ContainsRune(text, 0) {
			f.fail("is not the name of a file")
			return
		}
		*to = f.r.absolute(text)
	}
}

func (r *reader) absolute(name string) string {
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(r.dir, name)
}

// patterns reads a pattern or a list of patterns. "|" separates alternatives, except in names of
// principals, which contain it.
func (f *field) patterns() (list []string) {
	for _, at := range f.oneOrMore() {
		if at.n.kind != isText && at.n.kind != isNumber {
			at.fail("is %s, but must be a pattern", kindNames[at.n.kind])
			continue
		}
		alternatives := []string{at.n.text}
		principal := strings.HasSuffix(f.path, ".principal")
		if !principal {
			alternatives = strings.Split(at.n.text, "|")
		}
		for _, p := range alternatives {
			if err := glob.Check(p); err != nil {
				at.fail("%v", err)
				break
			}
			if i := strings.IndexAny(p, `?[]{}\`); i >= 0 && !principal && !strings.HasSuffix(f.path, ".group") {
				at.fail("contains %q: in a pattern, * stands for any characters and | separates alternatives", p[i:i+1])
				break
			}
			if len(list) == maxList {
				at.fail("is one pattern too many: at most %d are allowed", maxList)
				return list
			}
			list = append(list, p)
		}
	}
	return list
}

// webAddress reads the URL of an HTTP service that gets secrets: https, or http on this machine.
func (f *field) webAddress(to *string) {
	text, ok := f.word(false)
	if !ok {
		return
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		f.fail("is not an address that starts with https://")
	case u.User != nil || u.Fragment != "":
		f.fail("must not have a user or a fragment")
	case u.Scheme == "http" && !isLocal(u.Hostname()):
		f.fail("must start with https://; http:// is only for this machine")
	default:
		*to = text
	}
}
