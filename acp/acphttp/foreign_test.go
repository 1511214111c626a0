package acphttp

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/httprpc"
)

// foreign returns a server without our extensions: no event ids, no Run-ID, no stream of old
// events, no queries.
func foreign(t *testing.T) *httptest.Server {
	const run = `{"run_id":"` + uuid1 + `","agent_name":"theirs","status":"%s","output":[],"created_at":"2025-06-01T10:00:00.123456Z","session_id":null,"error":null}`
	events := []string{
		`{"type":"run.created","run":` + fmt.Sprintf(run, "created") + `}`,
		`{"type":"run.in-progress","run":` + fmt.Sprintf(run, "in-progress") + `}`,
		`{"type":"generic","generic":{"x":1}}`,
		`{"type":"run.completed","run":` + fmt.Sprintf(run, "completed") + `}`,
	}
	var mu sync.Mutex
	known := 2
	mux := http.NewServeMux()
	mux.HandleFunc("POST /runs", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		body, _ := io.ReadAll(r.Body)
		for i, e := range events {
			if i == 2 && strings.Contains(string(body), `"cut"`) {
				return // as a proxy with a timeout does
			}
			fmt.Fprintf(w, "data: %s\r\n\r\n", e)
		}
	})
	mux.HandleFunc("GET /runs/{id}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		mu.Lock()
		defer mu.Unlock()
		status := "in-progress"
		if known == len(events) {
			status = "completed"
		}
		fmt.Fprintf(w, run, status)
	})
	mux.HandleFunc("GET /runs/{id}/events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(w, `{"events":[%s]}`, strings.Join(events[:known], ","))
		known = min(known+1, len(events))
	})
	mux.HandleFunc("GET /agents/{name}", func(w http.ResponseWriter, r *http.Request) {
		switch r.PathValue("name") {
		case "html":
			http.Error(w, "<html>", http.StatusBadGateway)
		case "strange":
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"name":`)
		case "redirect":
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		default:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			io.WriteString(w, `{"code":"not_found","message":"Agent `+r.PathValue("name")+` not found","data":null}`)
		}
	})
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)
	return web
}

func TestForeignServer(t *testing.T) {
	web := foreign(t)
	c, err := Dial(web.URL, &DialOptions{Poll: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var seqs []int64
	on := func(e acp.Event) error {
		seqs = append(seqs, e.Seq)
		return nil
	}
	if run := must(t)(c.Stream(t.Context(), ask("theirs", "x"), on)); run.Status != acp.RunCompleted || fmt.Sprint(seqs) != "[1 2 3 4]" {
		t.Errorf("%+v %v", run, seqs)
	}
	seqs = nil
	if run := must(t)(c.Subscribe(t.Context(), uuid1, 1, on)); run.Status != acp.RunCompleted || fmt.Sprint(seqs) != "[2 3 4]" {
		t.Errorf("%+v %v", run, seqs)
	}
	seqs = nil
	if run := must(t)(c.Stream(t.Context(), ask("cut", "x"), on)); run.Status != acp.RunCompleted || fmt.Sprint(seqs) != "[1 2 3 4]" {
		t.Errorf("a stream that ends too early: %+v %v", run, seqs)
	}
	if list, err := c.Events(t.Context(), uuid1, 2); err != nil || len(list) != 2 || list[0].Seq != 3 {
		t.Errorf("%+v, %v", list, err)
	}
	_, err = c.Agent(t.Context(), "a b/c")
	var e *acp.Error
	if !errors.Is(err, acp.ErrNotFound) || !errors.As(err, &e) || e.Message != "Agent a b/c not found" {
		t.Errorf("%v", err)
	}
	_, err = c.Agent(t.Context(), "html")
	var status *httprpc.StatusError
	if !errors.As(err, &status) || status.Status != 502 || errors.As(err, &e) && errors.Is(err, acp.ErrServer) {
		t.Errorf("%v", err)
	}
	if _, err = c.Agent(t.Context(), "strange"); !errors.Is(err, jsonrpc.ErrBadResponse) {
		t.Errorf("%v", err)
	}
	if _, err = c.Agent(t.Context(), "redirect"); err == nil {
		t.Error("a redirect elsewhere was followed")
	}
}
