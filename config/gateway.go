package config

import (
	"time"
)

// A Gateway is the member gateway of a file, completely checked. All defaults are filled in, all
// paths are absolute, and all names of servers, groups and sets exist in the file.
type Gateway struct {
	Line, Column int // position of the member; 0 if the file has none

	// Listen lists the addresses, for parley.ParseTarget. The default is http://127.0.0.1:7500.
	Listen []string

	// PublicURL is the address that clients use, without a slash at the end. It is used in agent
	// cards and in OAuth metadata. If empty, it is taken from each request.
	PublicURL string

	// Cert and Key are the files with the certificate and its private key. Both are empty or set.
	Cert, CertKey string

	// Admin is the address of metrics, the state of servers and the control methods. If empty, they
	// are on the addresses of Listen.
	Admin string

	// Key seals session IDs and cursors: 32 bytes, or nil for a random key at each start.
	Key []byte

	// Replicas is the number of gateways that share the file; rate limits are divided by it. The
	// default is 1.
	Replicas int

	// Drain is the maximum time of running calls after a stop. The default is 15 s.
	Drain time.Duration

	// Identity describes how callers prove who they are. If nil, all callers are the principal
	// "local", and all addresses are loopback addresses or Unix sockets, unless
	// [GatewayOptions.InsecureNoAuth] is set.
	Identity *Identity

	// Policy are the rules of access; the first that matches applies. If none matches, a call is
	// allowed if no rule is an allow rule, and denied otherwise.
	Policy []Rule

	// Limits are the rate limits. All that match a call apply. The limits on calls in flight are in
	// [Upstream].
	Limits []Limit

	// Routes select the server of a JSON-RPC method; the first that matches applies.
	Routes []Route

	// Sets are the MCP endpoints, in the order of the file. There is always one with the name
	// [DefaultSet], and its Servers are never nil.
	Sets []Set

	// Pins is the handling of changed MCP tools: [PinsOff], [PinsWarn], [PinsEnforce] or
	// [PinsLocked]. The default is enforce if the file has a member gateway, and off otherwise.
	Pins string

	// Lock is the file with the pins. The default is parley.lock in the folder of the file.
	Lock string

	// SearchAbove is the number of visible tools above which a set lists tools for searching in
	// place of its tools. 0, the default, means never. Package gateway does not use it yet.
	SearchAbove int

	// Audit is the file of the audit log, empty for stderr. AuditArguments also logs arguments.
	Audit          string
	AuditArguments bool

	// Secrets are values that must not be shown or recorded, beside those of the entries.
	Secrets []string

	// Files are the files that were read with the configuration, such as the file of tokens. A
	// change of one of them is a change of the configuration.
	Files []string

	// Capture is the file in which traffic is recorded, empty for none. CaptureKeep is its maximum
	// size in bytes; the default is 256 MiB. Package gateway does not use them yet.
	Capture     string
	CaptureKeep int64
}

// DefaultSet is the name of the set at /mcp.
const DefaultSet = "default"

// Values of Gateway.Pins.
const (
	PinsOff     = "off"
	PinsWarn    = "warn"    // changes are logged
	PinsEnforce = "enforce" // changed and new tools wait for approval
	PinsLocked  = "locked"  // likewise, and tools of servers without pins too
)

// An Identity describes how callers prove who they are. At least one of its members is set.
type Identity struct {
	Tokens []Token // of the file of tokens; the file is read with the configuration
	OAuth  *OAuthIdentity
}

// A Token is a bearer token of a file of tokens. Only its digest is known.
type Token struct {
	Name   string   // the principal is "token:" and Name
	SHA256 [32]byte // digest of the token
	Groups []string
}

// OAuthIdentity configures access tokens of authorization servers.
type OAuthIdentity struct {
	Issuers  []string // the authorization servers, exactly as they name themselves; never empty
	Audience string   // the required audience of tokens
	Scopes   []string // the required scopes

	// Groups are expressions over claims whose results are the groups of a principal, such as
	// claims.groups, claims.realm_access.roles (Keycloak) or claims.roles (Entra).
	Groups []string
}

// A Rule is a rule of access. A nil list matches everything. Lists of names are globs, in which *
// stands for any characters; one of them must match.
type Rule struct {
	Deny         bool // otherwise the rule allows
	Line, Column int

	Principal, Group, Server, Method, Tool []string

	// When and Unless are expressions, empty if not set. The rule applies if When is true and
	// Unless is not.
	When, Unless string
}

// A Limit is a rate limit. Its lists are globs as those of a [Rule].
type Limit struct {
	Line, Column int
	PerServer    bool // one limit for each server, shared by all principals; otherwise one for each principal

	Principal, Group, Server, Method, Tool []string

	Rate  Rate
	Burst int // the default is the count of Rate, at least 1
}

// A Rate is a number of calls in a time. 100/s is {100, time.Second}.
type Rate struct {
	Count int
	Per   time.Duration
}

// A Route selects the server of a JSON-RPC method.
type Route struct {
	Line, Column int

	Method []string // globs; one of them must match
	To     string   // name of a server or of a group

	// Strip is removed from the start of the method for the upstream. All methods of the route start
	// with it.
	Strip string

	// Timeout bounds a call with all its attempts. The default is the Timeout of the server.
	Timeout time.Duration

	// Idempotent lists the methods that may be sent more than once: globs that match the method as
	// the client sends it. The value true is the glob *.
	Idempotent []string

	// Attempts is the maximum number of attempts, at least 1, and Backoff the time before the second
	// one. Without retry they are 1 and 0.
	Attempts int
	Backoff  time.Duration

	Hedge *Hedge // nil for none
	Cache *Cache // nil for none
}

// A Hedge sends a second attempt of an idempotent call to another server of the group.
type Hedge struct {
	After time.Duration // time of the first attempt; 0 stands for Quantile

	// Quantile is the part of recent calls that end earlier: 0.95 for p95. It is 0 if After is set.
	Quantile float64

	Min time.Duration // lower bound of the time that Quantile yields; the default is 20 ms
}

// A Cache stores results of calls.
type Cache struct {
	Methods  []string      // globs that match the method as the client sends it
	TTL      time.Duration // how long a result is used
	Shared   bool          // all principals use the same results
	Coalesce bool          // equal calls in flight share one upstream call
}

// A Set is an MCP endpoint with the tools of some servers: /mcp/NAME, or /mcp for [DefaultSet].
type Set struct {
	Name         string
	Line, Column int // 0 if the set is not in the file

	// Servers are the names of MCP servers or of groups of MCP servers, in the order of the list.
	Servers []string

	// NoPrefix exposes the names of the server's tools unchanged; Servers has one element.
	NoPrefix bool
}

// An Upstream has the settings of a server that only the gateway uses. They are members of the
// server's entry, or else defaults of the gateway.
type Upstream struct {
	// Group is the name that equal servers share. If empty, the server has no group.
	Group string

	// Required makes the gateway unready while the server is down.
	Required bool

	// Connection is [ConnectionAuto], [ConnectionShared], [ConnectionPrincipal] or
	// [ConnectionSession].
	Connection string

	// Timeout bounds a call. The default is 60 s.
	Timeout time.Duration

	// MaxProcesses bounds the running child processes of the server; the default is 16. Idle is the
	// time after which an unused link or child process is closed; the default is 5 min.
	MaxProcesses int
	Idle         time.Duration

	// Inflight bounds the running calls, and Queue the waiting ones; Wait is the maximum time in the
	// queue. The defaults are 256, 1,024 and 5 s.
	Inflight, Queue int
	Wait            time.Duration

	// AllowTools and DenyTools are globs of the server's original tool names. A tool is visible if
	// AllowTools is nil or matches, and DenyTools does not match.
	AllowTools, DenyTools []string

	// IdempotentTools are globs of the tools that may be called more than once. Package gateway does
	// not use them yet.
	IdempotentTools []string

	// At most one of the next three is set, and none if the server has headers that authenticate.
	Exchange     *Exchange          // exchanges the caller's token (RFC 8693)
	OAuth        *ClientCredentials // obtains a token of the gateway itself
	ForwardToken bool               // sends the caller's own token

	// ForwardHeaders are the names of request headers of clients that are sent upstream, in
	// canonical form.
	ForwardHeaders []string

	// DirectPush permits an A2A agent to send push notifications past the gateway.
	DirectPush bool

	Breaker *Breaker // nil if switched off
	Health  *Health  // nil if switched off
}

// Values of Upstream.Connection.
const (
	ConnectionAuto      = "auto"      // shared for modern MCP servers and others, session for legacy MCP servers
	ConnectionShared    = "shared"    // one link for all clients
	ConnectionPrincipal = "principal" // one link for each principal
	ConnectionSession   = "session"   // one link for each client session
)

// A Breaker stops calls to a server that fails.
type Breaker struct {
	Failures int           // failures in a row, or in Window, that open it; the default is 5
	Ratio    float64       // part of the calls in Window that must have failed; the default is 0.5
	Window   time.Duration // the default is 30 s
	Open     time.Duration // time before the first trial; the default is 5 s
	Max      time.Duration // to which Open doubles; the default is 60 s
}

// A Health checks a server at intervals.
type Health struct {
	Every   time.Duration // the default is 10 s
	Timeout time.Duration // the default is 2 s
	Method  string        // called on plain JSON-RPC servers; if empty, they are only connected
}

// An Exchange exchanges the verified token of a caller for one of the server (RFC 8693).
type Exchange struct {
	TokenEndpoint string
	ClientID      string
	ClientSecret  *Value // nil for a public client
	Audience      string // at least one of Audience and Resource is set
	Resource      string
	Scopes        []string
}

// ClientCredentials obtain a token for the gateway itself (RFC 6749, section 4.4).
type ClientCredentials struct {
	TokenEndpoint string // if empty, it is discovered from the server
	ClientID      string
	ClientSecret  *Value
	Audience      string
	Scopes        []string
}
