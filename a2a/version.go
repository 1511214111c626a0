package a2a

import "strings"

// A Version is one published version of the protocol, Major.Minor. The zero Version is invalid.
// Callers check its capabilities with methods and do not compare numbers.
type Version uint8

// The supported versions.
const (
	V03 Version = iota + 1 // "0.3"
	V10                    // "1.0"
)

// Versions returns all versions, newest first.
func Versions() []Version { return []Version{V10, V03} }

// ParseVersion parses the value of [HeaderVersion]. A patch part is ignored, and an empty value
// means 0.3 (A2A 1.0.1, section 3.6). It returns the zero Version for an unsupported version.
func ParseVersion(text string) Version {
	text = strings.TrimSpace(text)
	if text == "" {
		return V03
	}
	major, rest, _ := strings.Cut(text, ".")
	minor, patch, patched := strings.Cut(rest, ".")
	if patched && (patch == "" || strings.Trim(patch, "0123456789") != "") {
		return 0
	}
	switch major + "." + minor {
	case "1.0":
		return V10
	case "0.3":
		return V03
	}
	return 0
}

// String returns Major.Minor, and "" for the zero Version.
func (v Version) String() string {
	switch v {
	case V03:
		return "0.3"
	case V10:
		return "1.0"
	}
	return ""
}

// HasLists reports whether tasks can be listed.
func (v Version) HasLists() bool { return v >= V10 }

// StreamsPastQuestions reports whether a subscription continues while the task waits for input. In
// 0.3 the event that reports the question is the last.
func (v Version) StreamsPastQuestions() bool { return v >= V10 }

// WrapsResults reports whether the result of sending, and each event, is wrapped in an object with
// one member that names its type. In 0.3 it has a "kind" member instead.
func (v Version) WrapsResults() bool { return v >= V10 }
