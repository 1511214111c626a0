package eventstream

import (
	"net/http/httptest"
	"sync"
	"testing"
)

func TestLazy(t *testing.T) {
	began := 0
	w := httptest.NewRecorder()
	begin := func() *Writer {
		began++
		return NewWriter(w, &WriterOptions{KeepAlive: -1})
	}

	var plain Lazy
	if s := plain.End(); s != nil {
		t.Errorf("an answer that nothing was said about ends with the stream %v", s)
	}
	if s := plain.Get(begin); s != nil || began != 0 {
		t.Errorf("a stream began behind the end: %v, %d", s, began)
	}

	var l Lazy
	var all sync.WaitGroup
	streams := make([]*Writer, 8)
	for i := range streams {
		all.Go(func() { streams[i] = l.Get(begin) })
	}
	all.Wait()
	for _, s := range streams {
		if s == nil || s != streams[0] {
			t.Errorf("there are several streams: %v", streams)
		}
	}
	if began != 1 {
		t.Errorf("it began %d times", began)
	}
	if err := streams[0].Send(t.Context(), Event{Data: []byte("a")}); err != nil {
		t.Error(err)
	}
	if s := l.End(); s != streams[0] {
		t.Errorf("End = %v, want the stream", s)
	} else if err := s.Finish(Event{Data: []byte("b")}); err != nil {
		t.Error(err)
	}
	if s := l.End(); s != nil {
		t.Errorf("End again = %v: what is last would be said twice", s)
	}
	l.Abandon() // has no effect
	if got, want := w.Body.String(), "data: a\n\ndata: b\n\n"; got != want {
		t.Errorf("the stream is %q, want %q", got, want)
	}

	var left Lazy
	s := left.Get(begin)
	left.Abandon()
	if err := s.Send(t.Context(), Event{Data: []byte("c")}); err == nil {
		t.Error("an abandoned stream goes on")
	}
}
