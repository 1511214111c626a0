package mcp

// A Version is one published version of the protocol. The zero Version means none. Code must use
// its methods, not compare dates.
type Version uint8

// The published versions, oldest first.
const (
	V20241105 Version = iota + 1 // "2024-11-05"
	V20250326                    // "2025-03-26"
	V20250618                    // "2025-06-18"
	V20251125                    // "2025-11-25"
	V20260728                    // "2026-07-28", the first without a handshake
)

var versionNames = [...]string{"", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}

// ParseVersion returns the version with the given date on the wire. It returns the zero Version for
// any other text.
func ParseVersion(name string) Version {
	for v := V20241105; v <= V20260728; v++ {
		if versionNames[v] == name {
			return v
		}
	}
	return 0
}

// Versions returns all versions, newest first.
func Versions() []Version {
	return []Version{V20260728, V20251125, V20250618, V20250326, V20241105}
}

// String returns the date that names v on the wire, and "" for the zero Version.
func (v Version) String() string {
	if int(v) < len(versionNames) {
		return versionNames[v]
	}
	return ""
}

// Modern reports whether each request contains its own version and capabilities, and there is no
// handshake.
func (v Version) Modern() bool { return v >= V20260728 }

// HasHandshake reports whether a conversation begins with initialize.
func (v Version) HasHandshake() bool { return v != 0 && v < V20260728 }

// HasSessions reports whether Streamable HTTP may have sessions, the GET stream and resumption.
func (v Version) HasSessions() bool { return v >= V20250326 && v < V20260728 }

// HasServerRequests reports whether a server may send requests to its client.
func (v Version) HasServerRequests() bool { return v.HasHandshake() }

// HasBatches reports whether arrays of messages must be accepted.
func (v Version) HasBatches() bool { return v == V20250326 }

// HasVersionHeader reports whether HTTP requests have the header MCP-Protocol-Version.
func (v Version) HasVersionHeader() bool { return v >= V20250618 }

// HasEarlyEvents reports whether a server should begin an event stream with an event ID, so that it
// may close the stream and let the client reconnect.
func (v Version) HasEarlyEvents() bool { return v == V20251125 }

// HasAudio reports whether content may be audio, tools may have annotations, progress may have a
// message, and servers may offer completions.
func (v Version) HasAudio() bool { return v >= V20250326 }

// HasStructuredContent reports whether tools may have output schemas and structured results.
// Results may be restricted to objects; see HasAnyStructure.
func (v Version) HasStructuredContent() bool { return v >= V20250618 }

// HasAnyStructure reports whether a structured result may be any JSON value.
func (v Version) HasAnyStructure() bool { return v >= V20260728 }

// HasResourceLinks reports whether content may be a resource_link.
func (v Version) HasResourceLinks() bool { return v >= V20250618 }

// HasElicitation reports whether a server may ask the user to fill in a form.
func (v Version) HasElicitation() bool { return v >= V20250618 }

// HasURLElicitation reports whether a server may send the user to a URL.
func (v Version) HasURLElicitation() bool { return v >= V20251125 }

// HasElicitationID reports whether a question with a URL has an ID, which is later used to report
// its completion.
func (v Version) HasElicitationID() bool { return v == V20251125 }

// HasSamplingTools reports whether sampling may use tools, and messages may have several blocks.
func (v Version) HasSamplingTools() bool { return v >= V20251125 }

// HasCoreTasks reports whether tasks are part of the version itself, where they are experimental.
func (v Version) HasCoreTasks() bool { return v == V20251125 }

// HasExtensions reports whether capabilities name extensions, such as tasks.
func (v Version) HasExtensions() bool { return v >= V20260728 }

// HasCaching reports whether lists and resources declare how long they may be cached.
func (v Version) HasCaching() bool { return v >= V20260728 }

// notFound returns the error code for a resource that does not exist.
func (v Version) notFound() int64 {
	if v.Modern() {
		return CodeInvalidParams
	}
	return CodeResourceNotFound
}
