// Package glob matches names with patterns in which "*" stands for any characters.
package glob

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxLength is the maximum length of a pattern that [Check] accepts, in bytes.
const MaxLength = 256

// Match reports whether text matches pattern. It compares bytes and allocates nothing; its time is
// at most proportional to the product of both lengths.
func Match(pattern, text string) bool {
	first, rest, star := strings.Cut(pattern, "*")
	if !star {
		return text == pattern
	}
	if !strings.HasPrefix(text, first) {
		return false
	}
	text = text[len(first):]
	for {
		part, more, another := strings.Cut(rest, "*")
		if !another {
			return strings.HasSuffix(text, part)
		}
		at := strings.Index(text, part)
		if at < 0 {
			return false
		}
		text, rest = text[at+len(part):], more
	}
}

// Any reports whether text matches at least one of the patterns.
func Any(patterns []string, text string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return Match(p, text) })
}

// Covers reports whether pattern matches each text that the pattern other matches. Neither may
// contain a NUL.
func Covers(pattern, other string) bool {
	// A character that is not in pattern can only be matched by a "*" of it, which then matches all
	// other characters too.
	return Match(pattern, strings.ReplaceAll(other, "*", "\x00"))
}

// Prefix returns the text with which all matches of pattern start.
func Prefix(pattern string) string {
	first, _, _ := strings.Cut(pattern, "*")
	return first
}

// Check returns an error if pattern is empty, too long or contains control characters.
func Check(pattern string) error {
	switch {
	case pattern == "":
		return errors.New("is an empty pattern")
	case len(pattern) > MaxLength:
		return fmt.Errorf("is a pattern of more than %d bytes", MaxLength)
	case !utf8.ValidString(pattern) || strings.ContainsFunc(pattern, unicode.IsControl):
		return errors.New("contains control characters")
	}
	return nil
}

// Overlap reports whether there is a text that both patterns match.
func Overlap(a, b string) bool {
	if !strings.Contains(a, "*") {
		return Match(b, a)
	}
	if !strings.Contains(b, "*") {
		return Match(a, b)
	}
	// The parts between the first and the last "*" can follow each other, so only the ends count.
	suffix := func(p string) string { return p[strings.LastIndexByte(p, '*')+1:] }
	start, end := Prefix(a), suffix(a)
	return (strings.HasPrefix(start, Prefix(b)) || strings.HasPrefix(Prefix(b), start)) &&
		(strings.HasSuffix(end, suffix(b)) || strings.HasSuffix(suffix(b), end))
}
