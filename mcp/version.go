package mcp

// A Version is one published revision of the protocol. The zero Version is none. Code asks for its abilities, never for its date.
type Version uint8

// The published revisions, oldest first.
const (
	V20241105 Version = iota + 1 // "2024-11-05"
	V20250326                    // "2025-03-26"
	V20250618                    // "2025-06-18"
	V20251125                    // "2025-11-25"
	V20260728                    // "2026-07-28", the first without a handshake
)

var versionNames = [...]string{"", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}

// ParseVersion finds a revision by the date that names it on the wire. It returns the zero Version for any other text.
func ParseVersion(name string) Version {
	for v := V20241105; v <= V20260728; v++ {
		if versionNames[v] == name {
			return v
		}
	}
	return 0
}

// Versions returns all revisions, newest first.
func Versions() []Version {
	return []Version{V20260728, V20251125, V20250618, V20250326, V20241105}
}

// String returns the date that names v on the wire, and "" for none.
func (v Version) String() string {
	if int(v) < len(versionNames) {
		return versionNames[v]
	}
	return ""
}

// Modern reports whether each request carries its own version and capabilities, and there is no handshake.
func (v Version) Modern() bool { return v >= V20260728 }

// HasHandshake reports whether a conversation opens with initialize.
func (v Version) HasHandshake() bool { return v != 0 && v < V20260728 }

// HasSessions reports whether Streamable HTTP may have sessions, the GET stream and resumption.
func (v Version) HasSessions() bool { return v >= V20250326 && v < V20260728 }

// HasServerRequests reports whether a server may ask its client.
func (v Version) HasServerRequests() bool { return v.HasHandshake() }

// HasBatches reports whether arrays of messages must be taken.
func (v Version) HasBatches() bool { return v == V20250326 }

// HasVersionHeader reports whether HTTP requests carry MCP-Protocol-Version.
func (v Version) HasVersionHeader() bool { return v >= V20250618 }

// HasEarlyEvents reports whether a server should open an event stream with an id, so that it may close and be asked again.
func (v Version) HasEarlyEvents() bool { return v == V20251125 }

// HasAudio reports whether content may be audio, tools may have annotations, progress a message, and servers completions.
func (v Version) HasAudio() bool { return v >= V20250326 }

// HasStructuredContent reports whether tools have output schemas and structured results; objects only, see HasAnyStructure.
func (v Version) HasStructuredContent() bool { return v >= V20250618 }

// HasAnyStructure reports whether a structured result may be any JSON value.
func (v Version) HasAnyStructure() bool { return v >= V20260728 }

// HasResourceLinks reports whether content may be a resource_link.
func (v Version) HasResourceLinks() bool { return v >= V20250618 }

// HasElicitation reports whether a server may ask the user by a form.
func (v Version) HasElicitation() bool { return v >= V20250618 }

// HasURLElicitation reports whether a server may send the user to a URL.
func (v Version) HasURLElicitation() bool { return v >= V20251125 }

// HasElicitationID reports whether a question with a URL carries an id, to say later that it is complete.
func (v Version) HasElicitationID() bool { return v == V20251125 }

// HasSamplingTools reports whether the model may be asked with tools, and messages may hold several blocks.
func (v Version) HasSamplingTools() bool { return v >= V20251125 }

// HasCoreTasks reports whether tasks are part of the revision itself, experimental as they were.
func (v Version) HasCoreTasks() bool { return v == V20251125 }

// HasExtensions reports whether capabilities name extensions, of which tasks are one.
func (v Version) HasExtensions() bool { return v >= V20260728 }

// HasCaching reports whether lists and resources say how long they may be kept.
func (v Version) HasCaching() bool { return v >= V20260728 }

// notFound is the code for a resource that does not exist.
func (v Version) notFound() int64 {
	if v.Modern() {
		return CodeInvalidParams
	}
	return CodeResourceNotFound
}
