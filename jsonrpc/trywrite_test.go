package jsonrpc_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/da1ed7bb/parley/jsonrpc"
)

// stingy is a Transport that records how each burst was sent, and has room only if the test allows
// it.
type stingy struct {
	*scripted

	mu   sync.Mutex
	room bool
	went []string // "try" or "write", and the payloads
}

func newStingy(room bool) *stingy { return &stingy{scripted: newScripted(), room: room} }

func (s *stingy) note(how string, b Burst) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.went = append(s.went, how+" "+strings.TrimSpace(strings.ReplaceAll(string(b.Bytes), "\n", " ")))
}

func (s *stingy) TryWrite(b Burst) bool {
	s.mu.Lock()
	room := s.room
	s.mu.Unlock()
	if !room {
		s.note("tried", b)
		return false
	}
	s.note("try", b)
	return true
}

func (s *stingy) Write(b Burst) error {
	s.note("write", b)
	return nil
}

func (s *stingy) log() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.went)
}

func ask(id int, method string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q}`, id, method)
}

func answered(id int) string { return fmt.Sprintf(`{"jsonrpc":"2.0","result":"done","id":%d}`, id) }

// TestWhatComesAloneIsTriedFirst checks decision 0014: which messages use TryWrite, which are left
// to the writer, and that none is sent twice.
func TestWhatComesAloneIsTriedFirst(t *testing.T) {
	done := Func(func(context.Context, struct{}) (string, error) { return "done", nil })
	nap := Func(func(_ context.Context, _ struct{}) (string, error) {
		time.Sleep(time.Second) // in a synctest bubble
		return "done", nil
	})
	for _, tt := range []struct {
		name string
		room bool
		in   []string
		want []string
	}{
		{"a quick answer, from the reader", true, []string{ask(1, "quick")}, []string{"try " + answered(1)}},
		{"several, which others may join", true, []string{ask(1, "quick"), ask(2, "quick")}, []string{"write " + answered(1) + " " + answered(2)}},
		{"the only request that runs", true, []string{ask(1, "nap")}, []string{"try " + answered(1)}},
		{"no room: the writer gets the same burst", false, []string{ask(1, "quick")}, []string{"tried " + answered(1), "write " + answered(1)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStingy(tt.room)
				for _, p := range tt.in {
					s.reads <- scriptedRead{payload: p}
				}
				m := new(Mux)
				m.Add("quick", done, Quick)
				m.Add("nap", nap)
				c := NewConn(s)
				c.Handler, c.Mode = m, m.Mode
				c.Start(t.Context())
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if got := s.log(); !slices.Equal(got, tt.want) {
					t.Errorf("went\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
				}
				_ = c.Close() // an error is not relevant any more
			})
		})
	}
}

// TestALoneCallIsTriedFirst checks the same for calls: a single call uses TryWrite, concurrent
// calls share the writer.
func TestALoneCallIsTriedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStingy(true)
		c := NewConn(s)
		c.Start(t.Context())
		for _, method := range []string{"first", "second"} {
			go func() { _ = c.Call(t.Context(), method, nil, nil) }() // it ends with the Conn
			synctest.Wait()
		}
		want := []string{`try {"jsonrpc":"2.0","method":"first","id":1}`, `write {"jsonrpc":"2.0","method":"second","id":2}`}
		if got := s.log(); !slices.Equal(got, want) {
			t.Errorf("went\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		_ = c.Close() // an error is not relevant any more
		synctest.Wait()
	})
}
