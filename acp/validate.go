package acp

import (
	"encoding/base64"
	"io"
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

// checkPart returns an error if a part is invalid.
func (p *MessagePart) checkPart() *Error {
	switch {
	case p.Content != "" && p.ContentURL != "":
		return invalid("A part must have either content or content_url, not both.")
	case p.ContentEncoding != "" && p.ContentEncoding != EncodingPlain && p.ContentEncoding != EncodingBase64:
		return invalid("The content_encoding of a part must be plain or base64.")
	case p.ContentEncoding == EncodingBase64 && !isBase64(p.Content):
		return invalid("The content of a part with content_encoding base64 must be base64 (RFC 4648, section 4).")
	case p.ContentURL != "" && !isURL(p.ContentURL):
		return invalid("The content_url of a part must be an absolute URL.")
	}
	if p.ContentType == "" {
		p.ContentType = typeText
	}
	return nil
}

// isBase64 reports whether a text is valid base64, without storing the decoded bytes.
func isBase64(text string) bool {
	_, err := io.Copy(io.Discard, base64.NewDecoder(base64.StdEncoding, strings.NewReader(text)))
	return err == nil
}

// checkMessage returns an error if a message is invalid, and sets defaults for missing members.
func (m *Message) checkMessage() *Error {
	if !isRole(m.Role) {
		return invalid("The role of a message must be user, agent or agent/NAME.")
	}
	if len(m.Parts) == 0 {
		return invalid("A message must have at least one part.")
	}
	for i := range m.Parts {
		if err := m.Parts[i].checkPart(); err != nil {
			return err
		}
	}
	return nil
}

func (m RunMode) checkMode(needed bool) *Error {
	switch m {
	case ModeSync, ModeAsync, ModeStream:
		return nil
	case "":
		if !needed {
			return nil
		}
	}
	return invalid("The mode must be sync, async or stream.")
}

// checkRequest returns an error if a request is invalid, and sets defaults for missing members.
func (q *RunCreateRequest) checkRequest() *Error {
	if !isName(q.AgentName) {
		return invalid("agent_name must be a DNS label.")
	}
	if len(q.Input) == 0 {
		return invalid("The input must have at least one message.")
	}
	for i := range q.Input {
		if err := q.Input[i].checkMessage(); err != nil {
			return err
		}
	}
	if err := q.Mode.checkMode(false); err != nil {
		return err
	}
	if q.SessionID != "" && !isUUID(q.SessionID) {
		return invalid("session_id must be a UUID.")
	}
	if q.Session == nil {
		return nil
	}
	if !isUUID(q.Session.ID) {
		return invalid("The id of a session must be a UUID.")
	}
	if q.SessionID != "" && q.SessionID != q.Session.ID {
		return newRefusal(ErrMismatch, CodeInvalidInput, "session_id and session.id differ.")
	}
	for _, at := range q.Session.History {
		if !isURL(at) {
			return invalid("The history of a session must contain absolute URLs.")
		}
	}
	if q.Session.State != "" && !isURL(q.Session.State) {
		return invalid("The state of a session must be an absolute URL.")
	}
	return nil
}

func (q *RunResumeRequest) checkRequest() *Error {
	if q.AwaitResume.Type == "" {
		return invalid("await_resume needs a type.")
	}
	if err := q.Mode.checkMode(true); err != nil {
		return err
	}
	if q.AwaitResume.Type != AwaitMessage {
		return nil // the run reports an unsupported type
	}
	if q.AwaitResume.Message == nil {
		return invalid("await_resume needs a message.")
	}
	return q.AwaitResume.Message.checkMessage()
}
