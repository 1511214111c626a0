package acp

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/store"
)

// Where things are in the store. Whose they are is part of the key.
const (
	runsPrefix     = "acp/runs/"
	sessionsPrefix = "acp/sessions/"
	messagesPrefix = "acp/messages/"
)

func runKey(owner, id string) string     { return runsPrefix + owner + "/" + id }
func sessionKey(owner, id string) string { return sessionsPrefix + owner + "/" + id }
func messageKey(owner, id string) string { return messagesPrefix + owner + "/" + id }

// A sessionRecord is what is kept of a session.
type sessionRecord struct {
	History []pastMessage `json:"history"`
	State   string        `json:"state,omitzero"`
}

// A pastMessage is a message that we keep, by its id, or one that another server keeps, by its URL.
type pastMessage struct {
	ID  string `json:"id,omitzero"`
	URL string `json:"url,omitzero"`
}

// Session returns a session with the URLs of its messages, or [ErrNotFound].
func (s *Server) Session(ctx context.Context, id string) (Session, error) {
	return s.SessionAt(ctx, id, s.opts.ResourceURL)
}

// SessionAt is [Server.Session] for a binding that knows by itself where the resource with an id can be had.
func (s *Server) SessionAt(ctx context.Context, id string, at func(id string) string) (Session, error) {
	if err := s.Load(ctx); err != nil {
		return Session{}, err
	}
	owner := s.owner(ctx)
	if !s.index.knows(owner, id) {
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

// Resource returns a message of a session by the id that its URL has: JSON text. One that is not there is [ErrNotFound].
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

// session reads what is kept of a session, and its revision: 0 if nothing is.
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

// open finds the session of a request, or makes one, and fills in its id.
func (s *Server) open(ctx context.Context, owner string, q *RunCreateRequest) (sessionRecord, error) {
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
	case s.index.knows(owner, q.SessionID):
		var err error
		if record, _, err = s.session(ctx, owner, q.SessionID); err != nil {
			return record, stored(err)
		}
	}
	if len(record.History)+len(q.Input) > s.opts.Limits.History {
		return record, refuse(ErrBusy, CodeServerError, "The session has as many messages as are kept.")
	}
	return record, nil
}

// pastMessage tells our own messages from others by their URL.
func (s *Server) pastMessage(at string) pastMessage {
	if len(at) >= 36 {
		if id := at[len(at)-36:]; isUUID(id) && s.opts.ResourceURL(id) == at {
			return pastMessage{ID: id}
		}
	}
	return pastMessage{URL: at}
}

// replace makes a session what the one says who brings it, and not what we may have of it.
func (s *Server) replace(ctx context.Context, owner, id string, record sessionRecord) error {
	before, _, err := s.session(ctx, owner, id)
	if err != nil {
		return stored(err)
	}
	text, err := encode(record)
	if err != nil {
		return err
	}
	if _, err := s.store.Put(ctx, sessionKey(owner, id), store.Any, text, 0); err != nil {
		return stored(err)
	}
	s.dropMessages(ctx, owner, slices.DeleteFunc(before.History, func(m pastMessage) bool { return slices.Contains(record.History, m) }))
	return nil
}

// remember adds the messages of a completed run to its session.
func (s *Server) remember(ctx context.Context, r *run, output []Message) error {
	var added []pastMessage
	keep := func(m Message) error {
		text, err := encode(m)
		if err != nil {
			return err
		}
		id := newUUID()
		if _, err := s.store.Put(ctx, messageKey(r.entry.owner, id), 0, text, 0); err != nil {
			return err
		}
		added = append(added, pastMessage{ID: id})
		return nil
	}
	var err error
	for i := 0; i < len(r.input) && err == nil; i++ {
		err = keep(r.input[i])
	}
	for i := 0; i < len(output) && err == nil; i++ {
		err = keep(output[i])
	}
	if err == nil {
		err = s.extend(ctx, r, added)
	}
	if err != nil {
		s.dropMessages(ctx, r.entry.owner, added)
	}
	return err
}

// extend writes a session with more messages in it. Other runs may do the same at once.
func (s *Server) extend(ctx context.Context, r *run, added []pastMessage) error {
	for {
		record, rev, err := s.session(ctx, r.entry.owner, r.entry.session)
		if err != nil {
			return err
		}
		if record.History = append(record.History, added...); len(record.History) > s.opts.Limits.History {
			return fmt.Errorf("more than %d messages", s.opts.Limits.History)
		}
		text, err := encode(record)
		if err != nil {
			return err
		}
		_, err = s.store.Put(ctx, sessionKey(r.entry.owner, r.entry.session), rev, text, 0)
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
}

// history reads the messages of a session as they were when a run in it began.
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
			return nil, fmt.Errorf("it is at %s, and there is no Fetch", m.URL)
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

// forget removes from the store what the index has let go.
func (s *Server) forget(ctx context.Context, gone forgotten) {
	ctx = context.WithoutCancel(ctx)
	for _, e := range gone.runs {
		s.report("run forgotten", s.drop(ctx, runKey(e.owner, e.id)))
	}
	for _, use := range gone.sessions {
		record, _, err := s.session(ctx, use.owner, use.id)
		if err == nil {
			s.dropMessages(ctx, use.owner, record.History)
			err = s.store.Delete(ctx, sessionKey(use.owner, use.id), store.Any)
		}
		s.report("session forgotten", forgot(sessionKey(use.owner, use.id), err))
	}
}

// drop removes a run.
func (s *Server) drop(ctx context.Context, key string) error {
	return forgot(key, errors.Join(s.store.Drop(ctx, key), s.store.Delete(ctx, key, store.Any)))
}

// forgot says what was forgotten, and what went wrong with it.
func forgot(key string, err error) error {
	if err != nil {
		return fmt.Errorf("acp: %s: %w", key, err)
	}
	return fmt.Errorf("acp: %s", key)
}

func (s *Server) dropMessages(ctx context.Context, owner string, all []pastMessage) {
	for _, m := range all {
		if m.ID == "" {
			continue
		}
		if err := s.store.Delete(context.WithoutCancel(ctx), messageKey(owner, m.ID), store.Any); err != nil {
			s.report("session", forgot(messageKey(owner, m.ID), err))
		}
	}
}
