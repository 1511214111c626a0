package acp

import (
	"net/url"
	"strings"
)

// isName reports whether s can be the name of an agent (ACP 0.2.0, components/schemas/AgentName).
func isName(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// isRole reports whether s can be the role of a message.
func isRole(s string) bool {
	if s == RoleUser || s == RoleAgent {
		return true
	}
	name, ok := strings.CutPrefix(s, RoleAgent+"/")
	return ok && name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}

// isURL reports whether s is an absolute URL.
func isURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.IsAbs()
}

// check returns what is wrong with a part.
func (p *MessagePart) check() *Error {
	switch {
	case p.Content != "" && p.ContentURL != "":
		return invalid("A part has either content or content_url, not both.")
	case p.ContentEncoding != "" && p.ContentEncoding != EncodingPlain && p.ContentEncoding != EncodingBase64:
		return invalid("The content_encoding of a part is plain or base64.")
	case p.ContentURL != "" && !isURL(p.ContentURL):
		return invalid("The content_url of a part is an absolute URL.")
	}
	if p.ContentType == "" {
		p.ContentType = typeText
	}
	return nil
}

// check returns what is wrong with a message, and fills in what it left out.
func (m *Message) check() *Error {
	if !isRole(m.Role) {
		return invalid("The role of a message is user, agent or agent/NAME.")
	}
	if len(m.Parts) == 0 {
		return invalid("A message has at least one part.")
	}
	for i := range m.Parts {
		if err := m.Parts[i].check(); err != nil {
			return err
		}
	}
	return nil
}

func (m RunMode) check(needed bool) *Error {
	switch m {
	case ModeSync, ModeAsync, ModeStream:
		return nil
	case "":
		if !needed {
			return nil
		}
	}
	return invalid("The mode is sync, async or stream.")
}

// check returns what is wrong with a request, and fills in what it left out.
func (q *RunCreateRequest) check() *Error {
	if !isName(q.AgentName) {
		return invalid("agent_name is a DNS label.")
	}
	if len(q.Input) == 0 {
		return invalid("The input has at least one message.")
	}
	for i := range q.Input {
		if err := q.Input[i].check(); err != nil {
			return err
		}
	}
	if err := q.Mode.check(false); err != nil {
		return err
	}
	if q.SessionID != "" && !isUUID(q.SessionID) {
		return invalid("session_id is a UUID.")
	}
	if q.Session == nil {
		return nil
	}
	if !isUUID(q.Session.ID) {
		return invalid("The id of a session is a UUID.")
	}
	if q.SessionID != "" && q.SessionID != q.Session.ID {
		return refuse(ErrMismatch, CodeInvalidInput, "session_id and session.id differ.")
	}
	for _, at := range q.Session.History {
		if !isURL(at) {
			return invalid("The history of a session holds absolute URLs.")
		}
	}
	if q.Session.State != "" && !isURL(q.Session.State) {
		return invalid("The state of a session is an absolute URL.")
	}
	return nil
}

func (q *RunResumeRequest) check() *Error {
	if q.AwaitResume.Type == "" {
		return invalid("await_resume has a type.")
	}
	if err := q.Mode.check(true); err != nil {
		return err
	}
	if q.AwaitResume.Type != AwaitMessage {
		return nil // the run may say what it thinks of it
	}
	if q.AwaitResume.Message == nil {
		return invalid("await_resume has a message.")
	}
	return q.AwaitResume.Message.check()
}
