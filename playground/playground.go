package playground

import (
	"context"
	"crypto/tls"
	"errors"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/internal/x/guard"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/httprpc"
)

// Bounds of what one page may hold. Past them the answer is an error that says so.
const (
	maxMessage   = 16 << 20 // one message, either way
	maxTargets   = 200
	maxQuestions = 1000 // more are left on the wire, unanswered
	maxHistory   = 1000
	maxLogs      = 8  // opened session files
	maxExchanges = 64 // HTTP requests of one target at once
)

// Options tune New. The zero value is a page without targets.
type Options struct {
	// Token opens the door. "" makes one of 256 random bits.
	Token string

	// Targets are the servers that the page shows at the beginning, and the only programs that it can start.
	Targets []Target

	// Tap is what the page stands beside, if others write into its Recorder. Nil: it shows what it does itself.
	Tap *Tap

	// Lessons are what can be learned.
	Lessons []Lesson

	// Configs reads configurations, those of other programs and what is pasted. Nil: there are none.
	Configs Configs

	// Folder is where saved calls lie, a file each. "" is folder "parley/calls" in the user's configuration folder.
	Folder string

	// Recording tunes the recording.
	Recording capture.Options

	// Judges makes the judges of one recording: of what is live, and of each session that is opened. Nil: there are none.
	Judges func() []capture.Judge

	// TLS is used for https, wss and tls. Nil means the system's authorities.
	TLS *tls.Config

	// Hosts and Origins are further names of this machine, and further pages, that may call: see package guard.
	Hosts, Origins []string

	// Version is what the page says it is.
	Version string

	// Log is told, in one line each, which programs start and end and who was refused at the door. Nil drops it. It is called from
	// many goroutines.
	Log func(line string)
}

// A Tap says what a page shows that stands beside a tap: what two other programs say to each other.
type Tap struct {
	Server string `json:"server"`        // the address or the command line of the server
	At     string `json:"at,omitzero"`   // where clients come, and then the server is a target, too; "" for a host that started the tap, on stdin and stdout
	File   string `json:"file,omitzero"` // where it is recorded, besides memory
}

// targets is the server behind the tap: a person who wants to say something, too, does it over a connection of the page's own.
func (t *Tap) targets() []Target {
	if t == nil || t.At == "" {
		return nil
	}
	server := Target{Name: "@server", Title: "The server behind this tap", Address: t.Server}
	if where, err := parley.ParseTarget(t.Server); err == nil {
		server.Protocol = guessProtocol(where)
	}
	return []Target{server}
}

// A Playground serves the page. Make it with New. It is safe for concurrent use.
type Playground struct {
	token    string
	options  Options
	rec      *capture.Recorder
	door     *guard.Door
	refusals refusals
	rpc      httprpc.Server
	answers  jsonrpc.Answerer
	mux      jsonrpc.Mux
	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	running  sync.WaitGroup // everything that is not bound to a request

	saving sync.Mutex // of files of saved calls

	mu        sync.Mutex // guards what is below
	closed    bool
	order     []string // names of targets, as they are shown
	targets   map[string]*target
	questions []*question
	changed   chan struct{} // closed at the next change of anything below mu
	version   int64         // counts these changes
	history   []sent        // newest last
	logs      map[string]*opened
	logCount  int
	school    school
	configs   map[string]*pasted
	pasteNo   int
	file      *ConfigView
	runs      map[string]*agentRun
	runNo     int
}

// New makes a Playground and starts its recording. Close ends both.
func New(o *Options) (*Playground, error) {
	p := &Playground{
		targets: make(map[string]*target),
		changed: make(chan struct{}),
		logs:    make(map[string]*opened),
		configs: make(map[string]*pasted),
		runs:    make(map[string]*agentRun),
	}
	if o != nil {
		p.options = *o
	}
	if p.token = p.options.Token; p.token == "" {
		p.token = guard.NewToken()
	}
	if p.options.Log == nil {
		p.options.Log = func(string) {}
	}
	if p.options.Folder == "" {
		dir, err := os.UserConfigDir()
		if err != nil {
			dir = os.TempDir()
		}
		p.options.Folder = filepath.Join(dir, "parley", "calls")
	}
	var err error
	if p.door, err = p.newDoor(); err != nil {
		return nil, err
	}
	recording := p.options.Recording
	recording.Judges = append(recording.Judges[:len(recording.Judges):len(recording.Judges)], p.judges()...)
	if recording.Redact.Keys == nil {
		// A member "token" is what a person copies from one message into the next; what is exported loses it nevertheless.
		recording.Redact.Keys = deleteFunc(capture.DefaultKeys, func(key string) bool { return key == "token" })
	}
	recording.Redact.Values = append(recording.Redact.Values[:len(recording.Redact.Values):len(recording.Redact.Values)], p.token)
	if p.rec, err = capture.New(&recording); err != nil {
		return nil, err
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.addMethods()
	p.answers.Handler, p.answers.Mode = &p.mux, p.mux.Mode
	p.answers.Report = func(what string, err error) { p.options.Log("playground: " + what + ": " + err.Error()) }
	p.rpc = httprpc.Server{Answerer: &p.answers, MaxMessage: 2 * maxMessage}
	p.SetTargets(append(p.options.Tap.targets(), p.options.Targets...))
	p.running.Go(p.watchLessons)
	return p, nil
}

func (p *Playground) judges() []capture.Judge {
	if p.options.Judges == nil {
		return nil
	}
	return p.options.Judges()
}

// Token is what opens the door; it goes into the fragment of the address, "#token=…".
func (p *Playground) Token() string { return p.token }

// Recorder is what everything on the wire is recorded with, for others who have something to show: a tap.
func (p *Playground) Recorder() *capture.Recorder { return p.rec }

// Close ends all connections and the programs behind them, the recording, and the streams to pages.
func (p *Playground) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	var links []*link
	var logins []*login
	for _, t := range p.targets {
		if t.login != nil {
			logins = append(logins, t.signOutLocked())
		}
		if t.link != nil {
			links = append(links, t.link)
		}
	}
	opened := slices.Collect(maps.Values(p.logs))
	p.tellLocked()
	p.mu.Unlock()

	p.cancel()
	for _, o := range opened {
		o.remove()
	}
	var wg sync.WaitGroup
	for _, l := range links {
		wg.Go(l.close)
	}
	for _, g := range logins {
		wg.Go(g.close)
	}
	wg.Wait()
	p.running.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(p.answers.Drain(ctx), p.rec.Close())
}

// tellLocked says that something below mu has changed. The caller holds mu.
func (p *Playground) tellLocked() {
	p.version++
	close(p.changed)
	p.changed = make(chan struct{})
}

// tell is tellLocked for who does not hold mu.
func (p *Playground) tell() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tellLocked()
}

// ServeHTTP answers one request: the page, or a call of it.
func (p *Playground) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	guard.Secure(w.Header())
	if f := p.admit(r); f != nil {
		f.Write(w, r)
		return
	}
	switch r.URL.Path {
	case "/rpc":
		p.rpc.ServeHTTP(w, r)
	case "/session/open":
		p.serveOpen(w, r)
	case "/session/save":
		p.serveSave(w, r)
	case "/healthz":
		serveHealth(w, r)
	default:
		servePage(w, r)
	}
}
