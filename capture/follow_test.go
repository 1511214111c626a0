package capture_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/capture"
)

// TestFollowFile checks that what another process appends is read, also a line that is written in
// two parts, until it ends.
func TestFollowFile(t *testing.T) {
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	line := func(seq int64, method string) string {
		data := `{"jsonrpc":"2.0","method":"` + method + `"}`
		return string(capture.AppendLine(nil, &capture.Event{Seq: seq, Time: at, Conn: 1, Kind: capture.KindMessage, Dir: capture.Out, Size: len(data), Data: []byte(data)}))
	}
	for name, last := range map[string]string{"whole": "", "half": `{"seq":9,"ti`} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "s.jsonl")
			out, err := os.Create(file)
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close()
			in, err := os.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			write := func(text string) {
				if _, err := out.WriteString(text); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Test(t, func(t *testing.T) {
				var live atomic.Bool
				live.Store(true)
				log, rest, err := capture.FollowFile(in, live.Load) // an empty file
				if err != nil || log.Len() != 0 {
					t.Fatal(log.Len(), err)
				}
				done := make(chan error, 1)
				go func() { done <- rest(t.Context()) }()
				methods := func(want string) {
					t.Helper()
					time.Sleep(time.Second) // of the bubble
					synctest.Wait()
					var got []string
					for _, r := range log.Rows(capture.Ref{}, 0) {
						got = append(got, r.Method)
					}
					if strings.Join(got, " ") != want {
						t.Errorf("rows %q, want %q; %v", got, want, log.Err())
					}
				}
				header := string(capture.AppendHeader(nil))
				write(header[:7])
				methods("")
				write(header[7:] + line(1, "one"))
				methods("one")
				two := line(2, "two")
				write(two[:20])
				methods("one")
				write(two[20:30])
				methods("one")
				rev := log.Rev()
				write(two[30:] + line(3, "three") + last)
				methods("one two three")
				if payload, err := log.Payload(capture.Ref{Seq: 2}); err != nil || !strings.Contains(string(payload), `"two"`) {
					t.Errorf("%s, %v", payload, err)
				}
				if err := log.Wait(t.Context(), rev); err != nil {
					t.Error(err)
				}
				if log.Err() != nil {
					t.Errorf("while it is written: %v", log.Err())
				}
				if last == "" {
					write(line(4, "four"))
				}
				live.Store(false)
				if err := <-done; err != nil {
					t.Error(err)
				}
				if last == "" {
					methods("one two three four")
				}
				if (log.Err() != nil) != (last != "") {
					t.Errorf("at the end: %v", log.Err())
				}
			})
		})
	}
}

// TestFollowFileEnds checks that following ends with its context, and that other files are refused.
func TestFollowFileEnds(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.jsonl")
	if err := os.WriteFile(file, capture.AppendHeader(nil), 0o600); err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	_, rest, err := capture.FollowFile(in, func() bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- rest(ctx) }()
	cancel()
	if err := <-done; err == nil {
		t.Error("it ends without an error")
	}
	if err := os.WriteFile(file, []byte("no session\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if _, _, err := capture.FollowFile(again, func() bool { return true }); err == nil {
		t.Error("a file that is no session is followed")
	}
}
