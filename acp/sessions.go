package acp

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/store"
)

// Prefixes of the keys in the store. The owner is part of the key.
const (
	runsPrefix     = "acp/runs/"
	sessionsPrefix = "acp/sessions/"
	messagesPrefix = "acp/messages/"
	sharedPrefix   = "acp/shared/" // marks messages that several sessions reference
)

func runKey(owner, id string) string     { return runsPrefix + owner + "/" + id }
func sessionKey(owner, id string) string { return sessionsPrefix + owner + "/" + id }
func messageKey(owner, id string) string { return messagesPrefix + owner + "/" + id }
func sharedKey(owner, id string) string  { return sharedPrefix + owner + "/" + id }

// A sessionRecord is the stored form of a session.
type sessionRecord struct {
	History []pastMessage `json:"history"`
	State   string        `json:"state,omitzero"`
	Bytes   int64         `json:"bytes,omitzero"` // of the messages that we store
}

// A pastMessage is a message that this server stores, by its id, or that another server stores, by
// its URL.
type pastMessage struct {
	ID  string `json:"id,omitzero"`
	URL string `json:"url,omitzero"`
}

// Session returns a session with the URLs of its messages, or [ErrNotFound].
func (s *Server) Session(ctx context.Context, id string) (Session, error) {
	return s.SessionAt(ctx, id, s.opts.ResourceURL)
}

// SessionAt is [Server.Session] for a binding that has its own URLs of resources.
func (s *Server) SessionAt(ctx context.Context, id string, at func(id string) string) (Session, error) {
	if err := s.Load(ctx); err != nil {
		return Session{}, err
	}
	owner := s.owner(ctx)
	if !s.index.contains(owner, id) {
		return Session{}, notFound("session")
	}
	record, _, err := s.session(ctx, owner, id)
	if err != nil {
		return Session{}, stored(err)
	}
	out := Session{ID: id, History: make([]string, len(record.History)), State: record.State}
	for i, m := range record.History {
		if out.History[i] = m.URL; m.ID != "" {
			out.History[i] = at(m.ID)
		}
	}
	return out, nil
}

// Resource returns a message of a session as JSON text, by the id in its URL. If it does not exist,
// the error is [ErrNotFound].
func (s *Server) Resource(ctx context.Context, id string) (jsonrpc.Raw, error) {
	if !isUUID(id) {
		return nil, notFound("resource")
	}
	value, err := s.store.Get(ctx, messageKey(s.owner(ctx), id))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, notFound("resource")
	case err != nil:
		return nil, stored(err)
	}
	return value.Data, nil
}

// session reads the stored session and its revision in the store. The revision is 0 if the session
// is not stored.
func (s *Server) session(ctx context.Context, owner, id string) (record sessionRecord, rev uint64, err error) {
	value, err := s.store.Get(ctx, sessionKey(owner, id))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return record, 0, nil
	case err != nil:
		return record, 0, err
	}
	return record, value.Rev, jsonrpc.Raw(value.Data).Decode(&record)
}

// openSession finds or creates the session of a request, and sets its id.
func (s *Server) openSession(ctx context.Context, owner string, q *RunCreateRequest) (sessionRecord, error) {
	var record sessionRecord
	switch {
	case q.Session != nil:
		q.SessionID = q.Session.ID
		record.State = q.Session.State
		for _, at := range q.Session.History {
			record.History = append(record.History, s.pastMessage(at))
		}
	case q.SessionID == "":
		q.SessionID = newUUID()
	case s.index.contains(owner, q.SessionID):
		var err error
		if record, _, err = s.session(ctx, owner, q.SessionID); err != nil {
			return record, stored(err)
		}
	}
	if len(record.History)+len(q.Input) > s.opts.Limits.History {
		return record, newRefusal(ErrBusy, CodeServerError, "The session has reached its maximum number of messages.")
	}
	return record, nil
}

// pastMessage distinguishes our own messages from others by their URL.
func (s *Server) pastMessage(at string) pastMessage {
	if len(at) >= 36 {
		if id := at[len(at)-36:]; isUUID(id) && s.opts.ResourceURL(id) == at {
			return pastMessage{ID: id}
		}
	}
	return pastMessage{URL: at}
}

// replace stores the session that the caller sent, and not what we may have stored before.
func (s *Server) replace(ctx context.Context, owner, id string, record sessionRecord) error {
	before, _, err := s.session(ctx, owner, id)
	if err != nil {
		return stored(err)
	}
	if slices.ContainsFunc(record.History, func(m pastMessage) bool { return m.ID != "" }) {
		record.Bytes = before.Bytes // messages of other sessions count there
	}
	text, err := encodeValue(record)
	if err != nil {
		return err
	}
	if err := s.growSession(ctx, owner, id, int64(len(text))+record.Bytes-s.index.sessionBytes(owner, id)); err != nil {
		return err
	}
	for _, m := range record.History {
		if m.ID == "" || slices.Contains(before.History, m) {
			continue
		}
		if _, err := s.store.Get(ctx, messageKey(owner, m.ID)); errors.Is(err, store.ErrNotFound) {
			continue
		}
		// Another session references it too.
		if _, err := s.store.Put(ctx, sharedKey(owner, m.ID), store.Any, []byte("1"), 0); err != nil {
			return stored(err)
		}
	}
	if _, err := s.store.Put(ctx, sessionKey(owner, id), store.Any, text, 0); err != nil {
		return stored(err)
	}
	s.dropMessages(ctx, owner, slices.DeleteFunc(before.History, func(m pastMessage) bool { return slices.Contains(record.History, m) }))
	return nil
}

// remember adds the messages of a completed run to its session.
func (s *Server) remember(ctx context.Context, r *run, output []Message) error {
	var texts [][]byte
	bytes := int64(0)
	for _, all := range [][]Message{r.input, output} {
		for _, m := range all {
			text, err := encodeValue(m)
			if err != nil {
				return err
			}
			texts = append(texts, text)
			bytes += int64(len(text)) + messageWeight
		}
	}
	if err := s.growSession(ctx, r.entry.owner, r.entry.session, bytes); err != nil {
		return err
	}
	var added []pastMessage
	var err error
	for _, text := range texts {
		id := newUUID()
		if _, err = s.store.Put(ctx, messageKey(r.entry.owner, id), 0, text, 0); err != nil {
			break
		}
		added = append(added, pastMessage{ID: id})
	}
	if err == nil {
		err = s.extend(ctx, r, added, bytes)
	}
	if err != nil {
		s.dropMessages(ctx, r.entry.owner, added)
		_ = s.growSession(ctx, r.entry.owner, r.entry.session, -bytes) // less always fits
	}
	return err
}

// messageWeight is what a message of a session costs besides its text, in bytes.
const messageWeight = 256

// growSession counts bytes of a session, and removes other sessions if there is no room.
func (s *Server) growSession(ctx context.Context, owner, id string, by int64) error {
	gone, err := s.index.growSession(owner, id, by)
	s.forgetRun(ctx, gone)
	return err
}

// extend appends messages to a session, which hold bytes. Other runs may do the same concurrently.
func (s *Server) extend(ctx context.Context, r *run, added []pastMessage, bytes int64) error {
	for {
		record, rev, err := s.session(ctx, r.entry.owner, r.entry.session)
		if err != nil {
			return err
		}
		if record.History = append(record.History, added...); len(record.History) > s.opts.Limits.History {
			return fmt.Errorf("more than %d messages", s.opts.Limits.History)
		}
		record.Bytes += bytes
		text, err := encodeValue(record)
		if err != nil {
			return err
		}
		_, err = s.store.Put(ctx, sessionKey(r.entry.owner, r.entry.session), rev, text, 0)
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
}

// history reads the messages of a session at the time when a run in it began.
func (s *Server) history(ctx context.Context, r *run) ([]Message, error) {
	out := make([]Message, len(r.past.History))
	for i, m := range r.past.History {
		text, err := s.pastText(ctx, r.entry.owner, m)
		if err == nil {
			err = text.Decode(&out[i])
		}
		if err != nil {
			return nil, fmt.Errorf("acp: message %d of the session: %w", i+1, err)
		}
	}
	return out, nil
}

func (s *Server) pastText(ctx context.Context, owner string, m pastMessage) (jsonrpc.Raw, error) {
	if m.ID == "" {
		if s.opts.Fetch == nil {
			return nil, fmt.Errorf("it is at %s, and Fetch is not set", m.URL)
		}
		text, err := s.opts.Fetch(ctx, m.URL)
		if err != nil {
			return nil, err
		}
		return jsonrpc.ParseRaw(text)
	}
	value, err := s.store.Get(ctx, messageKey(owner, m.ID))
	return value.Data, err
}

// forgetRun removes from the store what the index has removed.
func (s *Server) forgetRun(ctx context.Context, gone forgotten) {
	ctx = context.WithoutCancel(ctx)
	for _, e := range gone.runs {
		key := runKey(e.owner, e.id)
		s.reportForgotten(ReportRunForgotten, key, s.dropKey(ctx, key))
	}
	for _, use := range gone.sessions {
		record, _, err := s.session(ctx, use.owner, use.id)
		if err == nil {
			if err = s.store.Delete(ctx, sessionKey(use.owner, use.id), store.Any); err == nil {
				s.dropMessages(ctx, use.owner, record.History)
			}
		}
		s.reportForgotten(ReportSessionForgotten, sessionKey(use.owner, use.id), err)
	}
}

// reportForgotten reports what was removed, or the error of the store.
func (s *Server) reportForgotten(what, key string, err error) {
	if err != nil {
		what = jsonrpc.ReportStore
	}
	s.report(what, removedError(key, err))
}

// dropKey removes a run.
func (s *Server) dropKey(ctx context.Context, key string) error {
	return errors.Join(s.store.Drop(ctx, key), s.store.Delete(ctx, key, store.Any))
}

// removedError returns an error that reports what was removed, and why that failed if it did.
func removedError(key string, err error) error {
	if err != nil {
		return fmt.Errorf("acp: %s: %w", key, err)
	}
	return fmt.Errorf("acp: %s", key)
}

// dropMessages deletes messages that a session no longer references, unless another session does.
func (s *Server) dropMessages(ctx context.Context, owner string, all []pastMessage) {
	ctx = context.WithoutCancel(ctx)
	shared := map[string]bool{}
	for _, m := range all {
		if m.ID == "" {
			continue
		}
		if _, err := s.store.Get(ctx, sharedKey(owner, m.ID)); !errors.Is(err, store.ErrNotFound) {
			shared[m.ID] = true
			continue
		}
		s.dropMessage(ctx, owner, m.ID)
	}
	if len(shared) == 0 {
		return
	}
	named, err := s.named(ctx, owner, shared)
	if err != nil {
		s.report(jsonrpc.ReportSession, fmt.Errorf("acp: messages that may still be referenced were not deleted: %w", err))
		return
	}
	for id := range shared {
		if named[id] {
			continue
		}
		s.dropMessage(ctx, owner, id)
		if err := s.store.Delete(ctx, sharedKey(owner, id), store.Any); err != nil {
			s.report(jsonrpc.ReportSession, removedError(sharedKey(owner, id), err))
		}
	}
}

func (s *Server) dropMessage(ctx context.Context, owner, id string) {
	if err := s.store.Delete(ctx, messageKey(owner, id), store.Any); err != nil {
		s.report(jsonrpc.ReportSession, removedError(messageKey(owner, id), err))
	}
}

// named returns the ids of the given messages that any session of an owner references.
func (s *Server) named(ctx context.Context, owner string, ids map[string]bool) (map[string]bool, error) {
	found := map[string]bool{}
	prefix := sessionKey(owner, "")
	for after := ""; ; {
		page, err := s.store.List(ctx, prefix, after, 100)
		if err != nil || len(page) == 0 {
			return found, err
		}
		for _, value := range page {
			after = value.Key
			var record sessionRecord
			if err := jsonrpc.Raw(value.Data).Decode(&record); err != nil {
				return nil, fmt.Errorf("%s: %w", value.Key, err)
			}
			for _, m := range record.History {
				if ids[m.ID] {
					found[m.ID] = true
				}
			}
		}
	}
}
