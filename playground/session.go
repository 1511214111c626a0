package playground

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/internal/x/guard"
)

// An opened is a session file that somebody has dropped on the page.
type opened struct {
	name string
	log  *capture.Log
	file string             // a copy of our own, to be removed
	stop context.CancelFunc // ends reading it
	done chan struct{}      // closed when it is read, or not read any more
}

type logView struct {
	Log   string `json:"log"`
	Name  string `json:"name"`
	Total int    `json:"total"`
	Lost  int64  `json:"lost"`
}

type logsResult struct {
	Logs []logView `json:"logs"`
}

func (p *Playground) sessionList(context.Context, none) (logsResult, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := logsResult{Logs: []logView{{"live", filepath.Base(p.rec.Name()), p.rec.Len(), p.rec.Lost()}}}
	for i := range p.logCount {
		name := "s" + strconv.Itoa(i+1)
		if o := p.logs[name]; o != nil {
			out.Logs = append(out.Logs, logView{name, o.name, o.log.Len(), o.log.Lost()})
		}
	}
	return out, nil
}

type logName struct {
	Log string `json:"log"`
}

func (p *Playground) sessionClose(_ context.Context, in logName) (none, error) {
	p.mu.Lock()
	o := p.logs[in.Log]
	delete(p.logs, in.Log)
	p.mu.Unlock()
	if o == nil {
		return none{}, badParam("/log", "there is no session %q", in.Log)
	}
	o.remove()
	return none{}, nil
}

// remove ends reading, and takes the copy away.
func (o *opened) remove() {
	if o.stop != nil {
		o.stop()
		<-o.done
	}
	_ = os.Remove(o.file) // it lies in the folder for temporary files
}

// Bounds of a session that is dropped on the page.
const (
	maxSession  = 2 << 30
	sessionTime = 5 * time.Minute
)

// serveOpen takes a session file as the body of a POST.
func (p *Playground) serveOpen(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		guard.MethodOnly(http.MethodPost).Write(w, r)
		return
	}
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if media != "application/x-ndjson" && media != "application/json" {
		http.Error(w, "a session is sent as application/x-ndjson", http.StatusUnsupportedMediaType)
		return
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(sessionTime)) // a server without deadlines has none
	view, err := p.openSession(r.Body, r.URL.Query().Get("name"))
	_ = control.SetReadDeadline(time.Time{}) // likewise
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			http.Error(w, "the session is longer than 2 GiB", http.StatusRequestEntityTooLarge)
			return
		}
		http.Error(w, "this is no session: "+err.Error(), http.StatusUnprocessableEntity)
		return
	}
	writeJSON(w, view)
}

// openSession keeps a copy of a session on disk and reads it from there: what is long stays out of memory. Of a long session the first rows
// can be followed while the others are read.
func (p *Playground) openSession(body io.Reader, name string) (logView, error) {
	file, err := os.CreateTemp("", "parley-session-*.jsonl")
	if err != nil {
		return logView{}, err
	}
	o := &opened{name: cleanName(name), file: file.Name()}
	_, err = io.Copy(file, http.MaxBytesReader(nil, io.NopCloser(body), maxSession))
	var rest func(context.Context) error
	if err = errors.Join(err, file.Close()); err == nil {
		o.log, rest, err = capture.Begin(o.file, p.judges()...)
	}
	if err != nil {
		o.remove()
		return logView{}, err
	}
	id, err := p.keep(o, rest)
	if err != nil {
		o.remove()
		return logView{}, err
	}
	return logView{id, o.name, o.log.Len(), o.log.Lost()}, nil
}

// keep gives a session its name and has the rest of it read.
func (p *Playground) keep(o *opened, rest func(context.Context) error) (id string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case o.log.Len() == 0:
		err = orError(o.log.Err(), "it holds no messages")
	case len(p.logs) >= maxLogs || p.closed:
		err = fmt.Errorf("%d sessions are open already; close one", maxLogs)
	}
	ctx, cancel := context.WithCancel(p.ctx)
	if err != nil {
		cancel()
		_ = rest(ctx) // it only lets go of the file
		return "", err
	}
	o.stop, o.done = cancel, make(chan struct{})
	p.running.Go(func() {
		defer close(o.done)
		defer cancel()
		if err := rest(ctx); err != nil && ctx.Err() == nil {
			p.options.Log("playground: " + o.name + ": " + err.Error())
		}
	})
	p.logCount++
	id = "s" + strconv.Itoa(p.logCount)
	p.logs[id] = o
	return id, nil
}

func orError(err error, text string) error {
	if err != nil {
		return err
	}
	return errors.New(text)
}

// cleanName is what a file was called, without its folders and what could confuse a reader.
func cleanName(name string) string {
	name = filepath.Base(strings.ReplaceAll(name, `\`, "/"))
	name = strings.Map(func(r rune) rune {
		if r < ' ' || strings.ContainsRune("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f", r) {
			return -1
		}
		return r
	}, name)
	if name == "." || name == "/" {
		return "session"
	}
	return string([]rune(name)[:min(len([]rune(name)), 80)])
}

type saveParams struct {
	Log    string `json:"log,omitzero"`
	Format string `json:"format,omitzero"`
	Filter string `json:"filter,omitzero"`
}

// serveSave answers a POST with a recording as a file.
func (p *Playground) serveSave(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		guard.MethodOnly(http.MethodPost).Write(w, r)
		return
	}
	body := guard.Body{Max: 64 << 10}
	text, refused := body.Read(w, r, nil)
	if refused != nil {
		refused.Write(w, r)
		return
	}
	defer body.Done(len(text))
	var in saveParams
	if err := json.Unmarshal(text, &in); err != nil {
		http.Error(w, "the body is {log, format, filter}", http.StatusBadRequest)
		return
	}
	log, filter, _, err := p.choose(&rowsParams{Log: in.Log, Filter: in.Filter})
	if err != nil {
		http.Error(w, sentence(err), http.StatusBadRequest)
		return
	}
	f, ok := formats[orDefault(in.Format, "jsonl")]
	if !ok {
		http.Error(w, "format is jsonl, har or markdown", http.StatusBadRequest)
		return
	}
	if log == p.rec.Log {
		p.rec.Flush()
	}
	h := w.Header()
	h.Set("Content-Type", f.media)
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": "session-" + time.Now().Format("20060102-150405") + f.ext}))
	if err := f.write(w, log, filter); err != nil {
		panic(http.ErrAbortHandler) // the status is gone; a cut answer is how the page hears of it
	}
}

// writeJSON answers with a value of ours.
func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(raw(v)) // the page may be gone
}

// formats are what a recording can be saved as.
var formats = map[string]struct {
	media, ext string
	write      func(io.Writer, *capture.Log, *capture.Filter) error
}{
	"jsonl": {"application/x-ndjson", ".jsonl", func(w io.Writer, l *capture.Log, f *capture.Filter) error {
		return l.WriteSession(w, &capture.ExportOptions{Filter: f})
	}},
	"har": {"application/json", ".har", func(w io.Writer, l *capture.Log, f *capture.Filter) error {
		return l.WriteHAR(w, &capture.ExportOptions{Filter: f})
	}},
	"markdown": {"text/markdown; charset=utf-8", ".md", func(w io.Writer, l *capture.Log, f *capture.Filter) error {
		return l.WriteMarkdown(w, &capture.ExportOptions{Filter: f})
	}},
}
