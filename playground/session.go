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
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/internal/x/guard"
	"github.com/da1ed7bb/parley/internal/x/private"
)

// An opened is a session file that was dropped on the page, or opened from the folder of sessions.
type opened struct {
	name    string
	session string // its ID in the folder; "" if it was dropped
	live    bool   // when it was opened, a process recorded it
	log     *capture.Log
	file    *os.File           // of a dropped one a private copy, unnamed where the system supports that
	stale   bool               // it has a name, which must be removed
	stop    context.CancelFunc // stops reading it
	done    chan struct{}      // closed when reading has finished or stopped
}

// view returns what the page shows of an opened session.
func (o *opened) view(id string) logView {
	v := logView{Log: id, Name: o.name, Total: o.log.Len(), Lost: o.log.Lost(), Session: o.session}
	select {
	case <-o.done:
	default:
		v.Live = o.live
	}
	return v
}

// sessions contains the session files that are open on the page. The zero value is ready for use.
type sessions struct {
	mu     sync.Mutex
	byID   map[string]*opened
	last   int // number of the newest
	closed bool
}

// find returns an opened session, or nil.
func (s *sessions) find(id string) *opened {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byID[id]
}

// stored returns the opened session of the folder with an ID, or nil.
func (s *sessions) stored(session string) (id string, o *opened) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, o := range s.byID {
		if session != "" && o.session == session {
			return id, o
		}
	}
	return "", nil
}

// remove removes a session from the list and returns it, or nil. The caller calls its remove.
func (s *sessions) remove(id string) *opened {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.byID[id]
	delete(s.byID, id)
	return o
}

// views returns the sessions in the order in which they were opened.
func (s *sessions) views() []logView {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []logView
	for i := range s.last {
		id := "s" + strconv.Itoa(i+1)
		if o := s.byID[id]; o != nil {
			list = append(list, o.view(id))
		}
	}
	return list
}

// add gives a session an ID. If there is room for it, it calls begin before the session can be
// removed.
func (s *sessions) add(o *opened, begin func()) (id string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.byID) >= maxLogs || s.closed {
		return "", fmt.Errorf("%d sessions are already open; close one", maxLogs)
	}
	begin()
	if s.byID == nil {
		s.byID = make(map[string]*opened)
	}
	s.last++
	id = "s" + strconv.Itoa(s.last)
	s.byID[id] = o
	return id, nil
}

// close closes all sessions, and accepts no more.
func (s *sessions) close() {
	s.mu.Lock()
	list := s.byID
	s.byID, s.closed = nil, true
	s.mu.Unlock()
	for _, o := range list {
		o.remove()
	}
}

type logView struct {
	Log   string `json:"log"`
	Name  string `json:"name"`
	Total int    `json:"total"`
	Lost  int64  `json:"lost"`

	Session string `json:"session,omitzero"` // its ID in the folder of sessions
	Live    bool   `json:"live,omitzero"`    // another process records it
}

type logsResult struct {
	Logs []logView `json:"logs"`
}

func (p *Playground) sessionList(context.Context, none) (logsResult, error) {
	live := logView{Log: "live", Name: filepath.Base(p.rec.Name()), Total: p.rec.Len(), Lost: p.rec.Lost()}
	return logsResult{append([]logView{live}, p.sessions.views()...)}, nil
}

type logName struct {
	Log string `json:"log"`
}

func (p *Playground) sessionClose(_ context.Context, in logName) (none, error) {
	o := p.sessions.remove(in.Log)
	if o == nil {
		return none{}, badParam("/log", "unknown session %q", in.Log)
	}
	o.remove()
	return none{}, nil
}

// remove stops reading and deletes the copy.
func (o *opened) remove() {
	if o.stop != nil {
		o.stop()
		<-o.done
	}
	_ = o.file.Close() // all writes are done
	if o.stale {
		_ = os.Remove(o.file.Name()) // in the folder for temporary files
	}
}

// Limits of a session that is dropped on the page.
const (
	maxSession  = 2 << 30
	sessionTime = 5 * time.Minute
)

// serveOpen accepts a session file as the body of a POST.
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
	_ = control.SetReadDeadline(time.Now().Add(sessionTime)) // fails on a server without deadlines
	view, err := p.openSession(r.Body, r.URL.Query().Get("name"))
	_ = control.SetReadDeadline(time.Time{}) // likewise
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			http.Error(w, "the session is longer than 2 GiB", http.StatusRequestEntityTooLarge)
			return
		}
		http.Error(w, "not a session: "+err.Error(), http.StatusUnprocessableEntity)
		return
	}
	writeJSON(w, view)
}

// openSession stores a copy of a session on disk and reads it from there, so that long payloads
// stay out of memory. The first rows of a long session are available while the others are read.
func (p *Playground) openSession(body io.Reader, name string) (logView, error) {
	file, stale, err := private.Temp("parley-session-*.jsonl")
	if err != nil {
		return logView{}, err
	}
	o := &opened{name: cleanName(name), file: file, stale: stale}
	_, err = io.Copy(file, http.MaxBytesReader(nil, io.NopCloser(body), maxSession))
	var rest func(context.Context) error
	if err == nil {
		o.log, rest, err = capture.BeginFile(o.file, p.judges()...)
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
	return o.view(id), nil
}

// keep assigns an ID to a session and starts reading the rest of it.
func (p *Playground) keep(o *opened, rest func(context.Context) error) (id string, err error) {
	ctx, cancel := context.WithCancel(p.ctx)
	o.stop, o.done = cancel, make(chan struct{})
	if o.log.Len() == 0 && !o.live {
		err = orError(o.log.Err(), "it contains no messages")
	} else {
		id, err = p.sessions.add(o, func() { p.running.Go(func() { p.readRest(ctx, o, rest) }) })
	}
	if err != nil {
		cancel()
		o.stop = nil  // nothing reads it
		_ = rest(ctx) // it only releases the file
	}
	return id, err
}

func (p *Playground) readRest(ctx context.Context, o *opened, rest func(context.Context) error) {
	defer close(o.done)
	defer o.stop()
	if err := rest(ctx); err != nil && ctx.Err() == nil {
		p.options.Log("playground: " + o.name + ": " + err.Error())
	}
}

func orError(err error, text string) error {
	if err != nil {
		return err
	}
	return errors.New(text)
}

// cleanName returns a file name without folders and confusing characters.
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

// serveSave responds to a POST with a recording as a file.
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
	defer body.Done()
	var in saveParams
	if err := json.Unmarshal(text, &in); err != nil {
		http.Error(w, "the body must be {log, format, filter}", http.StatusBadRequest)
		return
	}
	log, filter, _, err := p.choose(&rowsParams{Log: in.Log, Filter: in.Filter})
	if err != nil {
		http.Error(w, sentence(err), http.StatusBadRequest)
		return
	}
	f, ok := formats[orDefault(in.Format, "jsonl")]
	if !ok {
		http.Error(w, "format must be jsonl, har or markdown", http.StatusBadRequest)
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
		// The status is already sent; the page detects the aborted response.
		panic(http.ErrAbortHandler)
	}
}

// writeJSON writes one of this package's values as the response.
func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(raw(v)) // the page may have disconnected
}

// formats are the file formats for saving a recording.
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
