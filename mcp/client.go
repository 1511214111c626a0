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

	"github.com/da1ed7bb/parley/jsonrpc"
)

// ClientOptions tune a [Client]. The zero value is a client that cannot be asked anything.
type ClientOptions struct {
	Versions []Version // which are spoken; nil means all

	// Elicit asks the user. ElicitURL says that it takes the mode ElicitURL too. What the user left out gets the defaults of the form. A call that a
	// server of 2025-11-25 refuses until the user has been to a URL is made again when Elicit has returned that they accept.
	Elicit    func(ctx context.Context, e *Elicitation) (*ElicitResult, error)
	ElicitURL bool

	// Sample asks the model. SampleTools says that it takes tools.
	Sample      func(ctx context.Context, q *SamplingRequest) (*SamplingResult, error)
	SampleTools bool

	// Roots says what the client works on.
	Roots func(ctx context.Context) ([]Root, error)

	// NoTasks keeps servers of the modern era from answering a call with a task, which [Client.CallTool] otherwise waits for.
	NoTasks bool

	// HostTasks lets a server of 2025-11-25 ask Sample and Elicit by a task: it hears at once that the question has come, and comes back
	// for the answer. At most 100 are kept, each for an hour at most.
	HostTasks bool

	// Experimental and Extensions go into the capabilities.
	Experimental map[string]Settings
	Extensions   map[string]Settings

	// OnLog gets log messages. LogLevel is asked for in each modern request; LevelNone means no messages.
	OnLog    func(*LogParams)
	LogLevel Level

	// OnChange gets what a server says of its own accord: changed lists, updated resources, ended elicitations, tasks. Modern servers do so only
	// while [Client.Listen] runs.
	OnChange func(Change)

	// Probe is how long a server has to show that it is a modern one, before it is taken for a legacy one. Zero means 5 s. Over HTTP the
	// carrier does the waiting.
	Probe time.Duration

	// Rounds is how often a server may ask in one call. Zero means 16.
	Rounds int

	// CheckResults holds structured results against the output schemas of tools, as far as those were listed before.
	CheckResults bool

	// OverHTTP holds tools to the rules of headers: those with wrong x-mcp-header are dropped from lists. The carrier sets it.
	OverHTTP bool

	// GiveUp tells of an error of the first question whether it says nothing about the version, so that a handshake is pointless: nobody was
	// reached, or credentials are wanted. The carrier sets it. Nil: no error is of that kind.
	GiveUp func(error) bool

	// Limits of the conversation that [Connect] opens. Events is 65,536 when zero.
	Limits jsonrpc.Limits

	// Report gets what nobody else hears: failed handlers, dropped tools and messages. Nil drops it.
	Report func(what string, err error)
}

// A Client uses one server, of any revision. It is made by [Connect], or by [NewClient] and [Client.Open] on a carrier of its own. It is a
// [jsonrpc.Handler], for what a legacy server asks. It is safe for concurrent use.
type Client struct {
	info Implementation
	opts ClientOptions
	link Link
	ids  atomic.Uint64

	serving  sync.WaitGroup // what Connect started
	gone     chan struct{}
	goneOnce sync.Once

	version  atomic.Uint32
	envelope atomic.Pointer[[]byte] // how the _meta of a modern request begins
	server   atomic.Pointer[serverFacts]
	cache    resultCache
	hosted   hostedTasks

	mu      sync.Mutex               // guards what follows
	headers map[string][]HeaderParam // of tools, by name
	outputs map[string]*schema       // of tools, by name; nil for what cannot be validated
	watch   map[*watcher]struct{}
	visits  map[string]chan struct{} // to URLs, by the id of their elicitation
	level   Level                    // that a legacy server was told; LevelNone: none
}

// serverFacts are what a server said about itself.
type serverFacts struct {
	info         Implementation
	capabilities ServerCapabilities
	instructions string
	versions     []string // modern
}

// NewClient makes a client. It starts nothing.
func NewClient(info Implementation, o *ClientOptions) *Client {
	if o == nil {
		o = &ClientOptions{}
	}
	c := &Client{info: info, opts: *o, gone: make(chan struct{}), headers: map[string][]HeaderParam{}, outputs: map[string]*schema{}, watch: map[*watcher]struct{}{}, visits: map[string]chan struct{}{}}
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

// Connect opens a conversation on t, which it owns from then on, and finds out what the server speaks. [Client.Close] ends it.
func Connect(ctx context.Context, t jsonrpc.Transport, info Implementation, o *ClientOptions) (*Client, error) {
	c := NewClient(info, o)
	conn := jsonrpc.NewConn(t)
	c.Attach(conn)
	c.serving.Go(func() {
		_ = conn.Serve(context.WithoutCancel(ctx)) // its cause shows in every call
		c.Gone()
	})
	if err := c.Open(ctx, conn); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Gone tells the client that its link has ended, so that what waits for news ends too. A carrier of its own calls it; more than once does nothing.
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

// maxEvents is how many notifications about one call may wait: progress and changes come in bursts.
const maxEvents = 65_536

// Close ends the conversation.
func (c *Client) Close() error {
	var err error
	if c.link != nil {
		err = c.link.Close()
	}
	c.Gone()
	c.serving.Wait()
	c.hosted.running.Wait()
	return err
}

// Version returns the revision that is spoken.
func (c *Client) Version() Version { return Version(c.version.Load()) }

// ServerInfo returns how the server presents itself, as far as it does.
func (c *Client) ServerInfo() Implementation { return c.facts().info }

// ServerCapabilities returns what the server offers.
func (c *Client) ServerCapabilities() ServerCapabilities { return c.facts().capabilities }

// Instructions returns what the server says to the model about itself.
func (c *Client) Instructions() string { return c.facts().instructions }

func (c *Client) facts() *serverFacts {
	if f := c.server.Load(); f != nil {
		return f
	}
	return &serverFacts{}
}

func (c *Client) report(what string, err error) {
	if c.opts.Report != nil {
		c.opts.Report(what, err)
	}
}

// capabilities are what the client says of itself to a server of v.
func (c *Client) capabilities(v Version) ClientCapabilities {
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
	if v.HasExtensions() || v.HasCoreTasks() { // the last legacy revision tolerates them
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

// newest returns the newest own version of an era.
func (c *Client) newest(modern bool) Version {
	for _, v := range Versions() {
		if v.Modern() == modern && c.speaks(v) {
			return v
		}
	}
	return 0
}

// common returns the newest version that both sides speak.
func (c *Client) common(names []string) Version {
	var best Version
	for _, name := range names {
		if v := ParseVersion(name); c.speaks(v) && v > best {
			best = v
		}
	}
	return best
}

// Open finds out over link which version the server speaks, and opens a conversation in it (MCP 2026-07-28, Versioning). It first asks in the
// modern way; an answer that only a modern server gives decides for that era, anything else, or none in time, for the handshake. When ctx ends
// during the handshake, the link is closed.
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
		// A modern server that was too slow for the probe says so now.
		if v, again := c.discover(ctx, modern); again == nil && v.Modern() {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("mcp: open: %w (the modern way: %w)", err, probeErr)
	}
	return nil
}

// errNoDiscovery is an answer to server/discover from a server that answers anything to everything, as some old ones do.
var errNoDiscovery = errors.New("mcp: server/discover names no versions")

// discover asks a server what it speaks, and returns the version to go on with, which is a legacy one when there is no other.
func (c *Client) discover(ctx context.Context, v Version) (Version, error) {
	for range 2 {
		c.speakModern(v)
		var d DiscoverResult
		raw, err := c.probe(ctx)
		if unsupported, ok := errors.AsType[*jsonrpc.Error](err); ok && unsupported.Code == CodeUnsupportedVersion {
			var data UnsupportedVersionData
			_ = unsupported.Data.Decode(&data) // then there is nothing in common
			next := c.common(data.Supported)
			if next == 0 {
				return 0, fmt.Errorf("%w: it speaks %v", ErrNoCommonVersion, data.Supported)
			}
			if !next.Modern() {
				return next, nil
			}
			v = next // also when it is the same: the server said that it speaks that, so it gets a second chance to
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
			return 0, fmt.Errorf("%w: it speaks %v", ErrNoCommonVersion, d.SupportedVersions)
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

// speakModern makes the beginning of each modern request.
func (c *Client) speakModern(v Version) {
	e := []byte(`{"_meta":{"` + MetaProtocolVersion + `":"` + v.String() + `","` + MetaClientInfo + `":`)
	e = append(e, mustEncode(c.info)...)
	e = append(e, `,"`+MetaClientCapabilities+`":`...)
	e = append(e, mustEncode(c.capabilities(v))...)
	if c.opts.LogLevel != LevelNone {
		e = append(e, `,"`+MetaLogLevel+`":"`+c.opts.LogLevel.String()+`"`...)
	}
	c.envelope.Store(&e)
}

// handshake opens a legacy conversation. It is never cancelled on the wire (MCP 2025-11-25, Cancellation): who does not want to wait hangs up.
func (c *Client) handshake(ctx context.Context, v Version) error {
	stop := context.AfterFunc(ctx, func() { _ = c.link.Close() }) // the error is that of ctx
	err := c.initialize(context.WithoutCancel(ctx), c.link, v)
	if !stop() && ctx.Err() != nil {
		return fmt.Errorf("mcp: initialize: %w", context.Cause(ctx))
	}
	return err
}

// initialize asks for v and takes what the server offers instead, if it can.
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
		return fmt.Errorf("%w: it answered %.40q", ErrNoCommonVersion, in.ProtocolVersion)
	}
	c.server.Store(&serverFacts{info: in.ServerInfo, capabilities: in.Capabilities, instructions: in.Instructions})
	c.version.Store(uint32(agreed))
	return link.Do(ctx, &jsonrpc.Item{Method: NotifyInitialized, Notify: true})
}

// Reopen makes the handshake anew, for a carrier whose server has forgotten the session (MCP 2025-11-25, Transports, Session Management), and
// asks again for the resources that [Client.Listen] watches and the level of logs. What it sends goes over link, which is usually the
// carrier without its own way back here.
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
			c.report("reopen", err)
		}
	}
	for _, uri := range slices.Sorted(maps.Keys(uris)) {
		if err := link.Do(ctx, &jsonrpc.Item{Method: MethodResourcesSubscribe, Params: mustEncode(SubscribeParams{URI: uri})}); err != nil {
			c.report("reopen", fmt.Errorf("mcp: subscribe to %s: %w", uri, err))
		}
	}
	return nil
}
