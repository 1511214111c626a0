package playground

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/internal/x/grace"
	"github.com/da1ed7bb/parley/internal/x/guard"
	"github.com/da1ed7bb/parley/internal/x/rescue"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/httprpc"
)

// Limits of one page. Beyond them, a call returns an error that names the limit.
const (
	maxMessage       = 16 << 20 // one message, in either direction
	maxTargets       = 200
	maxQuestions     = 1000    // further questions stay in the traffic, unanswered
	maxQuestionBytes = 8 << 20 // of them, with 1 KiB for each
	maxLogs          = 8       // opened session files
	maxExchanges     = 64      // concurrent HTTP requests of one target
)

// Options configure [New]. The zero value is a page without targets.
type Options struct {
	// Token is the access token. If "", New makes one of 256 random bits.
	Token string

	// Targets are the servers that the page lists at the start, and the only programs that it can
	// start.
	Targets []Target

	// Tap describes the connection that is being tapped, if others write into the Recorder. If nil,
	// the page shows only its own traffic.
	Tap *Tap

	// Headless makes a Playground that only sends the calls of suites, with Send. Requests of servers
	// get the answers of the suite, and no person is asked.
	Headless bool

	// Lessons are the lessons that the page offers.
	Lessons []Lesson

	// Configs reads configurations of other programs and pasted ones. If nil, the page shows none.
	Configs Configs

	// Folder contains the saved calls, one file each. The default is folder "parley/calls" in the
	// user's configuration folder.
	Folder string

	// Sessions is the folder of the sessions of taps, which the page lists: see package
	// capture/sessions. It need not exist. If "", the page lists none.
	Sessions string

	// Suites are files of parley test whose calls and environments the page lists, in addition to
	// those in Folder: see package suite. The page does not change them.
	Suites []string

	// Recording configures the recording.
	Recording capture.Options

	// Judges returns the judges of one recording: of the live one, and of each session file that is
	// opened. If nil, no rules are checked.
	Judges func() []capture.Judge

	// TLS is used for https, wss and tls. If nil, the system's certificate authorities are used.
	TLS *tls.Config

	// Hosts and Origins are additional host names of this machine, and additional origins that may
	// call: see package guard.
	Hosts, Origins []string

	// Version is the version that the page displays.
	Version string

	// Log receives one line for each program that starts or exits, and at most one line per second
	// for refused requests. If nil, they are dropped. It is called from many goroutines.
	Log func(line string)
}

// A Tap describes the tapped connection between two other programs.
type Tap struct {
	Server string `json:"server"` // the address or the command line of the server
	// At is the address for clients, in which case the server is a target, too. It is "" for a host
	// that started the tap, on stdin and stdout.
	At   string `json:"at,omitzero"`
	File string `json:"file,omitzero"` // the file of the recording, in addition to memory
}

// targets returns the server behind the tap. A person who also wants to call it uses a separate
// connection of the page.
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

// A Playground serves the page. Create it with New. It is safe for concurrent use.
type Playground struct {
	token    string
	options  Options
	rec      *capture.Recorder
	door     *guard.Door
	refusals refusals
	rpc      httprpc.Server
	answers  jsonrpc.Answerer
	mux      jsonrpc.Mux
	ctx      context.Context // cancelled by Close
	cancel   context.CancelFunc
	running  sync.WaitGroup // everything that is not bound to a request

	saving sync.Mutex // serializes changes of saved calls' files

	// Each of these has a lock of its own, which is taken after mu.
	changes   changes
	sent      history
	questions questions
	sessions  sessions
	folder    sessionFolder
	school    school
	configs   configs
	runs      runs

	mu      sync.Mutex // guards the fields below, and those of each target
	closed  bool
	order   []string // names of targets, in display order
	targets map[string]*target
}

// New makes a Playground and starts its recording. Close stops both.
func New(o *Options) (*Playground, error) {
	p := &Playground{targets: make(map[string]*target)}
	if o != nil {
		p.options = *o
	}
	if p.token = p.options.Token; p.token == "" {
		p.token = guard.NewToken()
	}
	log := p.options.Log
	p.options.Log = func(line string) {
		if log != nil {
			_ = rescue.Run(nil, func() { log(line) }) // it is called on goroutines of ours
		}
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
	recording.Redact.Values = append(recording.Redact.Values[:len(recording.Redact.Values):len(recording.Redact.Values)], p.token)
	if p.rec, err = capture.New(&recording); err != nil {
		return nil, err
	}
	p.questions.rec, p.questions.sent = p.rec, &p.sent
	p.folder.dir = p.options.Sessions
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

// Token returns the access token. Put it into the fragment of the address: "#token=…".
func (p *Playground) Token() string { return p.token }

// Recorder returns the recorder of all traffic, for others that also record, such as a tap.
func (p *Playground) Recorder() *capture.Recorder { return p.rec }

// Close closes all connections, their programs, the recording, and the streams to pages.
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
	p.changes.signal()
	p.mu.Unlock()

	p.cancel()
	p.sessions.close()
	var wg sync.WaitGroup
	for _, l := range links {
		wg.Go(l.close)
	}
	for _, g := range logins {
		wg.Go(g.close)
	}
	wg.Wait()
	grace.Wait(&p.running, grace.Time)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(p.answers.Drain(ctx), p.rec.Close())
}

// ServeHTTP serves one request: a file of the page, or a call from it.
func (p *Playground) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	guard.EndAfterChunked(w, r)
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
