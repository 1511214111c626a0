package mcp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley/internal/x/grace"
	"github.com/da1ed7bb/parley/internal/x/report"
	"github.com/da1ed7bb/parley/internal/x/rescue"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// ClientOptions configure a [Client]. The zero value is a client without roots, model and user.
type ClientOptions struct {
	Versions []Version // the protocol versions to use; nil means all

	// Elicit asks the user. ElicitURL declares that Elicit also supports the mode ElicitURL. Form
	// fields that the user left out get the defaults of the form. If a server of 2025-11-25 rejects
	// a call until the user has visited a URL, the call is repeated after Elicit has returned that
	// the user accepts.
	Elicit    func(ctx context.Context, e *Elicitation) (*ElicitResult, error)
	ElicitURL bool

	// Sample calls the model. SampleTools declares that Sample supports tools.
	Sample      func(ctx context.Context, q *SamplingRequest) (*SamplingResult, error)
	SampleTools bool

	// Roots returns the roots that the client works on.
	Roots func(ctx context.Context) ([]Root, error)

	// NoTasks prevents servers of the modern era from answering a call with a task. By default
	// [Client.CallTool] waits for such tasks.
	NoTasks bool

	// HostTasks lets a server of 2025-11-25 send its requests for Sample and Elicit as tasks: the
	// server receives a response at once and fetches the result later. At most 100 tasks are
	// stored, each for at most an hour.
	HostTasks bool

	// Experimental and Extensions are added to the capabilities.
	Experimental map[string]Settings
	Extensions   map[string]Settings

	// Ask, if not nil, answers the requests of a legacy server for roots, the model and the user,
	// instead of Elicit, Sample and Roots. It is for programs that pass them on: the params and the
	// result are raw JSON. A returned *jsonrpc.Error is sent unchanged. If the request arrived in
	// the response to a call, which only HTTP shows, ctx has the values of the context of that
	// call. Ask is called concurrently.
	Ask func(ctx context.Context, in InputRequest) (jsonrpc.Raw, error)

	// Capabilities, if not nil, are declared instead of those that the other fields imply. They
	// must not change.
	Capabilities *ClientCapabilities

	// OnLog is called for log messages. LogLevel is requested in each modern request; LevelNone
	// means no messages.
	OnLog    func(*LogParams)
	LogLevel Level

	// OnChange is called for notifications about changed lists, updated resources, completed
	// elicitations and tasks. Modern servers send them only while [Client.Listen] runs.
	OnChange func(Change)

	// Probe is the time that a server has to respond as a modern server. After it, the client
	// treats the server as a legacy one. Zero means 5 s. Over HTTP the transport applies its own
	// timeout.
	Probe time.Duration

	// Rounds is how often a server may ask questions in one call. Zero means 16.
	Rounds int

	// CheckResults validates structured results with the output schemas of tools, if those were
	// listed before.
	CheckResults bool

	// OverHTTP enforces the rules for headers: tools with an invalid x-mcp-header are dropped from
	// lists. The transport sets it.
	OverHTTP bool

	// GiveUp reports whether an error of the first request is unrelated to the protocol version, so
	// that a handshake is pointless: the server was not reached, or it requires credentials. The
	// transport sets it. If nil, every error is treated as related to the version.
	GiveUp func(error) bool

	// Limits are the limits of the conversation that [Connect] opens. Events is 65,536 if zero;
	// EventBytes (8 MiB) bounds them too.
	Limits jsonrpc.Limits

	// Report receives errors that are not returned to a caller: failed handlers, dropped tools and
	// messages. If nil, they are dropped, except panics, which slog's default logger logs.
	Report func(what string, err error)
}

// A Client uses one server, of any protocol version. It is created by [Connect], or by [NewClient]
// and [Client.Open] for another transport. It is a [jsonrpc.Handler] for the requests of a legacy
// server. It is safe for concurrent use.
type Client struct {
	info Implementation
	opts ClientOptions
	link Link
	ids  atomic.Uint64

	serving  sync.WaitGroup // what Connect started
	gone     chan struct{}
	goneOnce sync.Once

	version  atomic.Uint32
	envelope atomic.Pointer[[]byte] // the beginning of the _meta of a modern request
	server   atomic.Pointer[serverFacts]
	cache    resultCache
	hosted   hostedTasks
	schemas  schemaCache // of results

	mu          sync.Mutex               // guards the fields below
	headers     map[string][]HeaderParam // of tools that have such, by name
	headerBytes int
	outputs     map[string]output // of tools, by name
	outputBytes int
	support     map[string]string // taskSupport of tools, by name; 2025-11-25
	watch       map[*watcher]struct{}
	visits      map[string]expected // to URLs, by the ID of their elicitation
	level       Level               // the level set at a legacy server; LevelNone if not set
}

// serverFacts are what a server declared about itself.
type serverFacts struct {
	info         Implementation
	capabilities ServerCapabilities
	instructions string
	versions     []string // of a modern server
}

// NewClient returns a client. It starts nothing.
func NewClient(info Implementation, o *ClientOptions) *Client {
	if o == nil {
		o = &ClientOptions{}
	}
	c := &Client{info: info, opts: *o, gone: make(chan struct{}), headers: map[string][]HeaderParam{}, outputs: map[string]output{}, support: map[string]string{}, watch: map[*watcher]struct{}{}, visits: map[string]expected{}}
	c.hosted.init()
	if c.opts.Versions == nil {
		c.opts.Versions = Versions()
	}
	if c.opts.Probe <= 0 {
		c.opts.Probe = 5 * time.Second
	}
	if c.opts.Rounds <= 0 {
		c.opts.Rounds = 16
	}
	return c
}

// Connect opens a conversation on t and negotiates the protocol version with the server. The client
// owns t from then on. [Client.Close] closes it.
func Connect(ctx context.Context, t jsonrpc.Transport, info Implementation, o *ClientOptions) (*Client, error) {
	c := NewClient(info, o)
	conn := jsonrpc.NewConn(t)
	c.Attach(conn)
	c.serving.Go(func() {
		_ = conn.Serve(context.WithoutCancel(ctx)) // every call returns its cause
		c.Gone()
	})
	if err := c.Open(ctx, conn); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Gone reports to the client that its link is closed, and stops everything that waits for messages.
// A transport that uses [Client.Open] calls it. Calling it more than once has no effect.
func (c *Client) Gone() {
	c.goneOnce.Do(func() {
		close(c.gone)
		c.hosted.end()
	})
}

// Attach sets the fields of a Conn, so that it is a Link for this client.
func (c *Client) Attach(conn *jsonrpc.Conn) {
	conn.Handler, conn.Mode, conn.Related, conn.Open = c, Mode, Related, Open
	conn.Cancellation, conn.Limits, conn.Report = Cancellation, c.opts.Limits, c.opts.Report
	if conn.Limits.Events == 0 {
		conn.Limits.Events = maxEvents
	}
	conn.Quiet = true
}

// maxEvents is how many notifications about one call may wait: progress and changes arrive in
// bursts.
const maxEvents = 65_536

// Close closes the conversation.
func (c *Client) Close() error {
	var err error
	if c.link != nil {
		err = c.link.Close()
	}
	c.Gone()
	grace.Wait(&c.serving, grace.Time) // a function of the caller may not return
	grace.Wait(&c.hosted.running, grace.Time)
	return err
}

// Version returns the negotiated protocol version.
func (c *Client) Version() Version { return Version(c.version.Load()) }

// ServerInfo returns the server's description of itself, as far as it sent one.
func (c *Client) ServerInfo() Implementation { return c.facts().info }

// ServerCapabilities returns the server's capabilities.
func (c *Client) ServerCapabilities() ServerCapabilities { return c.facts().capabilities }

// Instructions returns the server's instructions for the model.
func (c *Client) Instructions() string { return c.facts().instructions }

func (c *Client) facts() *serverFacts {
	if f := c.server.Load(); f != nil {
		return f
	}
	return &serverFacts{}
}

func (c *Client) report(what string, err error) {
	report.Call(c.opts.Report, "mcp", what, err)
}

// capabilities returns the client's capabilities for a server of version v.
func (c *Client) capabilities(v Version) ClientCapabilities {
	if c.opts.Capabilities != nil {
		return *c.opts.Capabilities
	}
	caps := ClientCapabilities{Experimental: c.opts.Experimental}
	if c.opts.Roots != nil {
		caps.Roots = &RootsCapability{ListChanged: v.HasHandshake()}
	}
	if c.opts.Sample != nil {
		caps.Sampling = &SamplingCapability{}
		if c.opts.SampleTools {
			caps.Sampling.Tools = &Mark{}
		}
	}
	if c.opts.Elicit != nil {
		caps.Elicitation = &ElicitationCapability{Form: &Mark{}}
		if c.opts.ElicitURL {
			caps.Elicitation.URL = &Mark{}
		}
	}
	if c.opts.HostTasks && v.HasCoreTasks() {
		caps.Tasks = &TasksCapability{List: &Mark{}, Cancel: &Mark{}, Requests: &TasksRequests{}}
		if c.opts.Sample != nil {
			caps.Tasks.Requests.Sampling = &TasksSampling{CreateMessage: &Mark{}}
		}
		if c.opts.Elicit != nil {
			caps.Tasks.Requests.Elicitation = &TasksElicitation{Create: &Mark{}}
		}
	}
	if v.HasExtensions() || v.HasCoreTasks() { // the last legacy version tolerates them
		all := maps.Clone(c.opts.Extensions)
		if all == nil {
			all = map[string]Settings{}
		}
		if v.HasExtensions() && !c.opts.NoTasks {
			all[ExtensionTasks] = Settings{}
		}
		if len(all) > 0 {
			caps.Extensions = all
		}
	}
	return caps
}

func (c *Client) speaks(v Version) bool {
	for _, own := range c.opts.Versions {
		if own == v && v != 0 {
			return true
		}
	}
	return false
}

// newest returns the newest version of an era that this client supports.
func (c *Client) newest(modern bool) Version {
	for _, v := range Versions() {
		if v.Modern() == modern && c.speaks(v) {
			return v
		}
	}
	return 0
}

// common returns the newest of the named versions that this client supports.
func (c *Client) common(names []string) Version {
	var best Version
	for _, name := range names {
		if v := ParseVersion(name); c.speaks(v) && v > best {
			best = v
		}
	}
	return best
}

// Open negotiates the version with the server over link, and opens a conversation in it (MCP
// 2026-07-28, Versioning). It first sends a modern request. A response that only a modern server
// sends selects the modern era; any other response, or a timeout, selects the handshake. If ctx
// ends during the handshake, the link is closed.
func (c *Client) Open(ctx context.Context, link Link) error {
	c.link = link
	modern := c.newest(true)
	if modern == 0 {
		return c.handshake(ctx, c.newest(false))
	}
	v, probeErr := c.discover(ctx, modern)
	switch {
	case probeErr == nil && v.Modern():
		return nil
	case probeErr == nil:
		return c.handshake(ctx, v)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case isModernError(probeErr), errors.Is(probeErr, jsonrpc.ErrClosed), errors.Is(probeErr, ErrNoCommonVersion), c.newest(false) == 0,
		c.opts.GiveUp != nil && c.opts.GiveUp(probeErr):
		return fmt.Errorf("mcp: open: %w", probeErr)
	}
	err := c.handshake(ctx, c.newest(false))
	if errors.Is(err, ErrUnsupportedVersion) || errors.Is(err, jsonrpc.ErrMethodNotFound) {
		// A modern server that was too slow for the probe rejects the handshake with these errors.
		if v, again := c.discover(ctx, modern); again == nil && v.Modern() {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("mcp: open: %w (the modern way: %w)", err, probeErr)
	}
	return nil
}

// errNoDiscovery is the error for a response to server/discover without versions: some old servers
// return a result for every method.
var errNoDiscovery = errors.New("mcp: server/discover names no versions")

// discover sends server/discover and returns the version to continue with. This is a legacy version
// if there is no common modern one.
func (c *Client) discover(ctx context.Context, v Version) (Version, error) {
	for range 2 {
		c.speakModern(v)
		var d DiscoverResult
		raw, err := c.probe(ctx)
		if unsupported, ok := errors.AsType[*jsonrpc.Error](err); ok && unsupported.Code == CodeUnsupportedVersion {
			var data UnsupportedVersionData
			_ = unsupported.Data.Decode(&data) // if it fails, there is no common version
			next := c.common(data.Supported)
			if next == 0 {
				return 0, fmt.Errorf("%w: it supports %v", ErrNoCommonVersion, data.Supported)
			}
			if !next.Modern() {
				return next, nil
			}
			// Also if it is the same version: the server listed it as supported, so it gets a
			// second chance.
			v = next
			continue
		}
		if err != nil {
			return 0, err
		}
		if err := raw.Decode(&d); err != nil {
			return 0, fmt.Errorf("mcp: server/discover: %w", err)
		}
		if d.SupportedVersions == nil {
			return 0, errNoDiscovery
		}
		best := c.common(d.SupportedVersions)
		if best == 0 {
			return 0, fmt.Errorf("%w: it supports %v", ErrNoCommonVersion, d.SupportedVersions)
		}
		facts := &serverFacts{capabilities: d.Capabilities, instructions: d.Instructions, versions: d.SupportedVersions}
		d.Meta.Get(MetaServerInfo, &facts.info)
		c.server.Store(facts)
		if best.Modern() {
			c.speakModern(best)
			c.version.Store(uint32(best))
		}
		return best, nil
	}
	return 0, ErrNoCommonVersion
}

// probe sends server/discover and waits for a bounded time.
func (c *Client) probe(ctx context.Context) (jsonrpc.Raw, error) {
	if !c.opts.OverHTTP {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.opts.Probe)
		defer cancel()
	}
	var raw jsonrpc.Raw
	err := c.link.Do(ctx, &jsonrpc.Item{Method: MethodDiscover, Params: c.modernParams(nil, nil, nil), Result: &raw})
	return raw, err
}

// speakModern stores the beginning of each modern request.
func (c *Client) speakModern(v Version) {
	e := c.envelopeFor(v, c.capabilities(v), c.opts.LogLevel)
	c.envelope.Store(&e)
}

// envelopeFor returns the beginning of a modern request: its _meta, which is open.
func (c *Client) envelopeFor(v Version, caps ClientCapabilities, level Level) []byte {
	e := []byte(`{"_meta":{"` + MetaProtocolVersion + `":"` + v.String() + `","` + MetaClientInfo + `":`)
	e = append(e, mustEncode(c.info)...)
	e = append(e, `,"`+MetaClientCapabilities+`":`...)
	e = append(e, mustEncode(caps)...)
	if level != LevelNone {
		e = append(e, `,"`+MetaLogLevel+`":"`+level.String()+`"`...)
	}
	return e
}

// handshake opens a legacy conversation. It is never cancelled on the wire (MCP 2025-11-25,
// Cancellation): when ctx ends, the link is closed.
func (c *Client) handshake(ctx context.Context, v Version) error {
	// handshake returns the error of ctx
	stop := context.AfterFunc(ctx, func() { _ = rescue.Call(c.report, c.link.Close) })
	err := c.initialize(context.WithoutCancel(ctx), c.link, v)
	if !stop() && ctx.Err() != nil {
		return fmt.Errorf("mcp: initialize: %w", context.Cause(ctx))
	}
	return err
}

// initialize requests version v and accepts the version that the server offers instead, if
// supported.
func (c *Client) initialize(ctx context.Context, link Link, v Version) error {
	if v == 0 {
		return ErrNoCommonVersion
	}
	params, err := encode(InitializeParams{ProtocolVersion: v.String(), Capabilities: c.capabilities(v), ClientInfo: c.info})
	if err != nil {
		return err
	}
	var in InitializeResult
	if err := link.Do(ctx, &jsonrpc.Item{Method: MethodInitialize, Params: params, Result: &in}); err != nil {
		return fmt.Errorf("mcp: initialize: %w", err)
	}
	agreed := ParseVersion(in.ProtocolVersion)
	if !c.speaks(agreed) || !agreed.HasHandshake() {
		return fmt.Errorf("%w: it responded with %.40q", ErrNoCommonVersion, in.ProtocolVersion)
	}
	c.server.Store(&serverFacts{info: in.ServerInfo, capabilities: in.Capabilities, instructions: in.Instructions})
	c.version.Store(uint32(agreed))
	return link.Do(ctx, &jsonrpc.Item{Method: NotifyInitialized, Notify: true})
}

// Reopen repeats the handshake, for a transport whose server has lost the session (MCP 2025-11-25,
// Transports, Session Management). It then restores the log level and the subscriptions to the
// resources that [Client.Listen] watches. It sends its messages over link, which is usually the
// transport without its own call of Reopen.
func (c *Client) Reopen(ctx context.Context, link Link) error {
	if !c.Version().HasHandshake() {
		return ErrNotSupported
	}
	if err := c.initialize(ctx, link, c.newest(false)); err != nil {
		return err
	}
	c.mu.Lock()
	level := c.level
	uris := map[string]bool{}
	for w := range c.watch {
		for _, uri := range w.filter.ResourceSubscriptions {
			uris[uri] = true
		}
	}
	c.mu.Unlock()
	if level != LevelNone {
		if err := link.Do(ctx, &jsonrpc.Item{Method: MethodSetLevel, Params: mustEncode(SetLevelParams{Level: level})}); err != nil {
			c.report(ReportReopen, err)
		}
	}
	for _, uri := range slices.Sorted(maps.Keys(uris)) {
		if err := link.Do(ctx, &jsonrpc.Item{Method: MethodResourcesSubscribe, Params: mustEncode(SubscribeParams{URI: uri})}); err != nil {
			c.report(ReportReopen, fmt.Errorf("mcp: subscribe to %s: %w", uri, err))
		}
	}
	return nil
}
