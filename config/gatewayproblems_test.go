package config_test

// A gatewayProblem is a file with problems.
type gatewayProblem struct {
	name  string
	text  string // what follows gatewayBase
	whole bool   // text is the whole file
	shape bool   // the JSON Schema rejects the file, too
	want  string // all problems, one a line
}

func (c gatewayProblem) file() string {
	if c.whole {
		return c.text
	}
	return gatewayBase + c.text
}

var gatewayProblems = []gatewayProblem{
	{
		name: "unknown member",
		text: `  listn: [http://127.0.0.1:1]
`,
		shape: true,
		want:  `parley.yaml:9:3: gateway.listn: unknown member; did you mean listen?`,
	},
	{
		name: "unknown member without a near one",
		text: `  colour: red
`,
		shape: true,
		want:  `parley.yaml:9:3: gateway.colour: unknown member`,
	},
	{
		name: "gateway is a list",
		text: `  - a
`,
		shape: true,
		want:  `parley.yaml:9:3: gateway: is a list, but must be a mapping`,
	},
	{
		name: "top member",
		text: `gatway: {}
servers: {n: {command: a}}
`,
		shape: true,
		whole: true,
		want:  `parley.yaml:1:1: gatway: unknown member; did you mean gateway?`,
	},
	{
		name: "settings of a server",
		text: `servers:
  n: {command: a, proccesses: {max: 1}, timeuot: 5s}
`,
		shape: true,
		whole: true,
		want: `parley.yaml:2:19: servers.n.proccesses: unknown member; did you mean processes?
parley.yaml:2:41: servers.n.timeuot: unknown member; did you mean timeout?`,
	},
	{
		name: "duplicate name in gateway",
		text: `  drain: 1s
  drain: 2s
  listn: 1
`,
		shape: true,
		want: `parley.yaml:10:3: duplicate name "drain"
parley.yaml:11:3: gateway.listn: unknown member; did you mean listen?`,
	},
	{
		name: "two problems of one file",
		text: `  drain: 5
  replicas: none
`,
		shape: true,
		want: `parley.yaml:9:10: gateway.drain: is a number without a unit; did you mean 5s or 5ms?
parley.yaml:10:13: gateway.replicas: is a text, but must be a number`,
	},
	{
		name: "wrong types",
		text: `  tls: yes
  identity: [a]
  policy: {}
  limits: 5
  routes: all
  mcp: [x]
  upstream: 1
  audit: log.jsonl
  capture: true
`,
		shape: true,
		want: `parley.yaml:9:8: gateway.tls: is a text, but must be a mapping
parley.yaml:10:13: gateway.identity: is a list, but must be a mapping
parley.yaml:11:11: gateway.policy: is a mapping, but must be a list
parley.yaml:12:11: gateway.limits: is a number, but must be a list
parley.yaml:13:11: gateway.routes: is a text, but must be a list
parley.yaml:14:8: gateway.mcp: is a list, but must be a mapping
parley.yaml:15:13: gateway.upstream: is a number, but must be a mapping
parley.yaml:16:10: gateway.audit: is a text, but must be a mapping
parley.yaml:17:12: gateway.capture: is true or false, but must be a mapping`,
	},
	{
		name: "duration without a unit",
		text: `  drain: 15
`,
		shape: true,
		want:  `parley.yaml:9:10: gateway.drain: is a number without a unit; did you mean 15s or 15ms?`,
	},
	{
		name: "duration with a long unit",
		text: `  drain: 15 seconds
`,
		shape: true,
		want:  `parley.yaml:9:10: gateway.drain: "15 seconds" is not a duration; did you mean 15s?`,
	},
	{
		name: "duration in days",
		text: `  upstream: {timeout: 2d}
`,
		shape: true,
		want:  `parley.yaml:9:23: gateway.upstream.timeout: "2d" is not a duration; did you mean 48h?`,
	},
	{
		name: "no duration",
		text: `  drain: soon
`,
		shape: true,
		want:  `parley.yaml:9:10: gateway.drain: "soon" is not a duration; write it as 500ms, 30s or 5m`,
	},
	{
		name: "negative duration",
		text: `  drain: -5s
`,
		shape: true,
		want:  `parley.yaml:9:10: gateway.drain: "-5s" is not a duration; write it as 500ms, 30s or 5m`,
	},
	{
		name: "duration out of bounds",
		text: `  drain: 11m
`,
		want: `parley.yaml:9:10: gateway.drain: is 11m, but must be from 0s to 10m`,
	},
	{
		name: "duration is a list",
		text: `  drain: [1s]
`,
		shape: true,
		want:  `parley.yaml:9:10: gateway.drain: is a list, but must be a text`,
	},
	{
		name: "size without a unit",
		text: `  capture: {file: a.jsonl, keep: 256}
`,
		shape: true,
		want:  `parley.yaml:9:34: gateway.capture.keep: is a number without a unit; did you mean 256MiB or 256B?`,
	},
	{
		name: "decimal size",
		text: `  capture: {file: a.jsonl, keep: 256MB}
`,
		shape: true,
		want:  `parley.yaml:9:34: gateway.capture.keep: "256MB" is not a size; did you mean 256MiB?`,
	},
	{
		name: "no size",
		text: `  capture: {file: a.jsonl, keep: much}
`,
		shape: true,
		want:  `parley.yaml:9:34: gateway.capture.keep: "much" is not a size; write it as 512KiB, 64MiB or 1GiB`,
	},
	{
		name: "small size",
		text: `  capture: {file: a.jsonl, keep: 1KiB}
`,
		want: `parley.yaml:9:34: gateway.capture.keep: is 1KiB, but must be from 1MiB to 1TiB`,
	},
	{
		name: "size beyond all bounds",
		text: `  capture: {file: a.jsonl, keep: 999999999999999TiB}
`,
		want: `parley.yaml:9:34: gateway.capture.keep: is 999999999999999TiB, but must be from 1MiB to 1TiB`,
	},
	{
		name: "rate without a unit",
		text: `  limits: [{per: principal, rate: 100}]
`,
		shape: true,
		want:  `parley.yaml:9:35: gateway.limits[0].rate: is a number without a unit; did you mean 100/s?`,
	},
	{
		name: "rate in words",
		text: `  limits: [{per: principal, rate: 100/second}, {per: principal, rate: 5 per minute}, {per: principal, rate: 10rps}, {per: principal, rate: often}]
`,
		shape: true,
		want: `parley.yaml:9:35: gateway.limits[0].rate: "100/second" is not a rate; did you mean 100/s?
parley.yaml:9:71: gateway.limits[1].rate: "5 per minute" is not a rate; did you mean 5/m?
parley.yaml:9:109: gateway.limits[2].rate: "10rps" is not a rate; did you mean 10/s?
parley.yaml:9:140: gateway.limits[3].rate: "often" is not a rate; write it as 100/s, 10/m or 1000/h`,
	},
	{
		name: "rate of zero",
		text: `  limits: [{per: principal, rate: 0/s}]
`,
		shape: true,
		want:  `parley.yaml:9:35: gateway.limits[0].rate: is 0/s, but the count must be from 1 to 1000000`,
	},
	{
		name: "not whole",
		text: `  replicas: 1.5
`,
		shape: true,
		want:  `parley.yaml:9:13: gateway.replicas: must be a whole number from 1 to 1000`,
	},
	{
		name: "count out of bounds",
		text: `  replicas: 0
`,
		shape: true,
		want:  `parley.yaml:9:13: gateway.replicas: is 0, but must be from 1 to 1000`,
	},
	{
		name: "count is a text",
		text: `  replicas: "2"
`,
		shape: true,
		want:  `parley.yaml:9:13: gateway.replicas: is a text, but must be a number`,
	},
	{
		name: "variable in a number",
		text: `  replicas: ${NOPE}
`,
		want: `parley.yaml:9:13: gateway.replicas: NOPE is not set`,
	},
	{
		name: "ratio",
		text: `  upstream: {breaker: {ratio: 1.5}}
`,
		shape: true,
		want:  `parley.yaml:9:31: gateway.upstream.breaker.ratio: must be a number above 0 and at most 1`,
	},
	{
		name: "truth",
		text: `  audit: {arguments: yes}
`,
		shape: true,
		want:  `parley.yaml:9:22: gateway.audit.arguments: is a text, but must be true or false`,
	},
	{
		name: "listen is not an address",
		text: `  listen: nonsense
`,
		want: `parley.yaml:9:11: gateway.listen: is not an address: it has no scheme: add http://, ws://, tcp:// or unix:, or put a command after --`,
	},
	{
		name: "listen with a path",
		text: `  listen: ["http://127.0.0.1:7500/mcp"]
`,
		want: `parley.yaml:9:12: gateway.listen[0]: must end after the port: the gateway has paths of its own, such as /mcp and /rpc`,
	},
	{
		name: "listen scheme",
		text: `  listen: ["htps://127.0.0.1:7500", "stdio:"]
`,
		want: `parley.yaml:9:12: gateway.listen[0]: has the scheme "htps:"; use http, https, ws, wss, tcp, tls, unix; did you mean https?
parley.yaml:9:37: gateway.listen[1]: has the scheme "stdio:"; use http, https, ws, wss, tcp, tls, unix`,
	},
	{
		name: "listen without a certificate",
		text: `  listen: ["https://127.0.0.1:7500"]
`,
		want: `parley.yaml:9:12: gateway.listen[0]: needs a certificate: set gateway.tls with cert and key`,
	},
	{
		name: "listen for all without identity",
		text: `  listen: ["http://0.0.0.0:7500", "http://[::]:7501", "http://gate.example:1", "tcp://10.0.0.1:7502"]
`,
		want: `parley.yaml:9:12: gateway.listen[0]: can be reached by other machines, and the gateway has no identity: set gateway.identity, or use 127.0.0.1
parley.yaml:9:35: gateway.listen[1]: can be reached by other machines, and the gateway has no identity: set gateway.identity, or use 127.0.0.1
parley.yaml:9:55: gateway.listen[2]: can be reached by other machines, and the gateway has no identity: set gateway.identity, or use 127.0.0.1
parley.yaml:9:80: gateway.listen[3]: can be reached by other machines, and the gateway has no identity: set gateway.identity, or use 127.0.0.1`,
	},
	{
		name: "listen twice",
		text: `  listen: ["http://127.0.0.1:7500", "ws://127.0.0.1:7500"]
`,
		want: `parley.yaml:9:37: gateway.listen[1]: is the same address as another one`,
	},
	{
		name: "empty listen",
		text: `  listen: []
`,
		shape: true,
		want:  `parley.yaml:9:11: gateway.listen: is an empty list`,
	},
	{
		name: "admin is listen",
		text: `  admin: http://127.0.0.1:7500
`,
		want: `parley.yaml:9:10: gateway.admin: is also an address of listen; leave admin out to use the same address`,
	},
	{
		name: "admin for all",
		text: `  admin: http://0.0.0.0:7501
`,
		want: `parley.yaml:9:10: gateway.admin: can be reached by other machines, and the gateway has no identity: set gateway.identity, or use 127.0.0.1`,
	},
	{
		name: "publicUrl",
		text: `  publicUrl: gate.example
`,
		want: `parley.yaml:9:14: gateway.publicUrl: is not an address that starts with https:// or http://`,
	},
	{
		name: "publicUrl with a query",
		text: `  publicUrl: https://gate.example/?a=b
`,
		want: `parley.yaml:9:14: gateway.publicUrl: must not have a user, a query or a fragment`,
	},
	{
		name: "tls half",
		text: `  tls: {cert: cert.pem}
`,
		shape: true,
		want:  `parley.yaml:9:8: gateway.tls: has no key: it needs both cert and key`,
	},
	{
		name: "tls files",
		text: `  tls: {cert: none.pem, key: key.pem}
`,
		want: `parley.yaml:9:15: gateway.tls.cert: cannot be read: file does not exist`,
	},
	{
		name: "tls content",
		text: `  tls: {cert: key.pem, key: key.pem}
`,
		want: `parley.yaml:9:15: gateway.tls.cert: cannot be used: failed to find any PEM data in certificate input`,
	},
	{
		name: "key is not base64",
		text: `  key: "not a key!"
`,
		want: `parley.yaml:9:8: gateway.key: is not base64; make a key with: openssl rand -base64 32`,
	},
	{
		name: "short key",
		text: `  key: c2hvcnQ=
`,
		want: `parley.yaml:9:8: gateway.key: has 5 bytes, but must have 32; make a key with: openssl rand -base64 32`,
	},
	{
		name: "key of a file",
		text: `  key: ${file:none}
`,
		want: `parley.yaml:9:8: gateway.key: file:none cannot be read: file does not exist`,
	},
	{
		name: "replicas without key",
		text: `  replicas: 3
`,
		want: `parley.yaml:9:13: gateway.replicas: needs gateway.key: all replicas have the same key`,
	},
	{
		name: "empty identity",
		text: `  identity: {}
`,
		shape: true,
		want:  `parley.yaml:9:13: gateway.identity: has neither tokens nor oauth`,
	},
	{
		name: "tokens without a file",
		text: `  identity: {tokens: none.yaml}
`,
		want: `parley.yaml:9:22: gateway.identity.tokens: cannot be read: file does not exist`,
	},
	{
		name: "oauth without anything",
		text: `  identity: {oauth: {}}
`,
		shape: true,
		want: `parley.yaml:9:21: gateway.identity.oauth: has no audience
parley.yaml:9:21: gateway.identity.oauth: has no issuers`,
	},
	{
		name: "oauth issuers",
		text: `  identity: {oauth: {issuers: ["http://id.example", id.example], audience: a, scopes: ["a b", c, c]}}
`,
		shape: true,
		want: `parley.yaml:9:32: gateway.identity.oauth.issuers[0]: must start with https://; http:// is only for this machine
parley.yaml:9:53: gateway.identity.oauth.issuers[1]: is not an address that starts with https://
parley.yaml:9:88: gateway.identity.oauth.scopes[0]: "a b" is not a scope: it must have no spaces and no quotes
parley.yaml:9:98: gateway.identity.oauth.scopes[2]: "c" is in the list twice`,
	},
	{
		name: "oauth groups",
		text: `  identity: {oauth: {issuers: ["https://id.example"], audience: a, groups: ["claims.", user.groups]}}
`,
		want: `parley.yaml:9:77: gateway.identity.oauth.groups[0]: character 8: missing name after the dot
parley.yaml:9:88: gateway.identity.oauth.groups[1]: character 1: unknown name "user"; the names are claims`,
	},
	{
		name: "problems of the tokens",
		text: `  identity: {tokens: bad-tokens.yaml}
`,
		want: `bad-tokens.yaml:2:10: [1].name: "ci" is also the name of the token on line 1
bad-tokens.yaml:2:22: [1].sha256: is not a digest: use the 64 hexadecimal digits that printf %s TOKEN | sha256sum prints, in quotes if all are digits
bad-tokens.yaml:3:3: [2]: has no sha256: the digest of the token, as printf %s TOKEN | sha256sum prints it
bad-tokens.yaml:3:10: [2].name: "a b" is not a name for a token: use 1 to 64 letters, digits, ., _, @, + and -
bad-tokens.yaml:3:17: [2].group: unknown member; did you mean groups?
bad-tokens.yaml:5:11: [3].sha256: is also the digest of the token on line 1
bad-tokens.yaml:6:3: [4]: is a text, but must be a mapping
bad-tokens.yaml:7:12: [5].sha256: is the digest of an empty token
bad-tokens.yaml:7:95: [5].groups: is a text, but must be a list`,
	},
	{
		name: "an empty file of tokens",
		text: `  identity: {tokens: empty-tokens.yaml}
`,
		want: `empty-tokens.yaml: lists no tokens`,
	},
	{
		name: "tokens are no list",
		text: `  identity: {tokens: map-tokens.json}
`,
		want: `map-tokens.json:1:1: is a mapping, but must be a list of tokens: - {name: ci, sha256: …, groups: [robots]}`,
	},
	{
		name: "tokens are not YAML",
		text: `  identity: {tokens: broken-tokens.yaml}
`,
		want: `broken-tokens.yaml:1:10: not YAML: sequence end token ']' not found`,
	},
	{
		name: "rule is neither",
		text: `  policy:
    - alow: {server: notes}
    - {allow: {}, deny: {}}
    - deny:
    - notes
`,
		shape: true,
		want: `parley.yaml:10:7: gateway.policy[0].alow: unknown member; did you mean allow?
parley.yaml:11:7: gateway.policy[1]: must have exactly one member: allow or deny
parley.yaml:12:7: gateway.policy[2].deny: is nothing; write deny: {} for all calls
parley.yaml:13:7: gateway.policy[3]: is a text, but must be a mapping`,
	},
	{
		name: "unknown server in a rule",
		text: `  policy: [{deny: {server: [note, billing]}}]
`,
		want: `parley.yaml:9:29: gateway.policy[0].deny.server: "note" matches no server or group of the file; did you mean notes?`,
	},
	{
		name: "bad pattern",
		text: `  policy: [{deny: {tool: "a[b]"}}, {deny: {method: ""}}, {deny: {method: "a||b"}}, {deny: {tool: []}}, {deny: {tool: {a: b}}}]
`,
		shape: true,
		want: `parley.yaml:9:26: gateway.policy[0].deny.tool: contains "[": in a pattern, * stands for any characters and | separates alternatives
parley.yaml:9:52: gateway.policy[1].deny.method: is an empty pattern
parley.yaml:9:74: gateway.policy[2].deny.method: is an empty pattern
parley.yaml:9:98: gateway.policy[3].deny.tool: is an empty list
parley.yaml:9:118: gateway.policy[4].deny.tool: is a mapping, but must be a text or a list of texts`,
	},
	{
		name: "bad expression",
		text: `  policy: [{deny: {when: "arguments.amount <"}}, {deny: {unless: "user == 'a'"}}, {deny: {when: "principal.group == 'a'"}}, {deny: {when: [a]}}]
`,
		shape: true,
		want: `parley.yaml:9:26: gateway.policy[0].deny.when: character 19: missing operand
parley.yaml:9:66: gateway.policy[1].deny.unless: character 1: unknown name "user"; the names are address, annotations, arguments, method, principal, server, tool
parley.yaml:9:97: gateway.policy[2].deny.when: character 11: principal has no "group"; it has name, groups, scopes, claims
parley.yaml:9:139: gateway.policy[3].deny.when: is a list, but must be an expression`,
	},
	{
		name: "rule that cannot apply",
		text: `  policy:
    - allow: {}
    - deny: {server: notes}
`,
		want: `parley.yaml:11:7: gateway.policy[1]: can never apply: the rule on line 10 matches all its calls`,
	},
	{
		name: "rule that is covered",
		text: `  policy:
    - deny: {server: "n*", tool: "delete_*"}
    - deny: {server: notes, tool: delete_all}
`,
		want: `parley.yaml:11:7: gateway.policy[1]: can never apply: the rule on line 10 matches all its calls`,
	},
	{
		name: "groups without identity",
		text: `  policy: [{deny: {group: robots}}, {allow: {principal: bob}}]
`,
		want: `parley.yaml:9:27: gateway.policy[0].deny.group: can never match: without gateway.identity no caller has groups
parley.yaml:9:57: gateway.policy[1].allow.principal: can never match: without gateway.identity every caller is the principal local`,
	},
	{
		name: "group of no token",
		text: `  identity: {tokens: tokens.yaml}
  policy: [{allow: {group: robot}}]
`,
		want: `parley.yaml:10:28: gateway.policy[0].allow.group: "robot" can never match: no token has such a group; did you mean robots?`,
	},
	{
		name: "tool of another method",
		text: `  policy: [{deny: {method: resources/read, tool: x}}]
`,
		want: `parley.yaml:9:50: gateway.policy[0].deny.tool: can never match: only tools/call has a tool, and method does not match it`,
	},
	{
		name: "limit without per",
		text: `  limits: [{rate: 1/s}]
`,
		shape: true,
		want:  `parley.yaml:9:12: gateway.limits[0]: has no per: use principal or server`,
	},
	{
		name: "limit per what",
		text: `  limits: [{per: principle, rate: 1/s}]
`,
		shape: true,
		want:  `parley.yaml:9:18: gateway.limits[0].per: "principle" is not known: use principal or server; did you mean principal?`,
	},
	{
		name: "limit of nothing",
		text: `  limits: [{per: server}, {per: principal, burst: 5}]
`,
		want: `parley.yaml:9:12: gateway.limits[0]: limits nothing: set rate, or inflight, queue and wait
parley.yaml:9:51: gateway.limits[1].burst: needs rate`,
	},
	{
		name: "inflight per principal",
		text: `  limits: [{per: principal, inflight: 5}]
`,
		want: `parley.yaml:9:39: gateway.limits[0].inflight: needs per: server`,
	},
	{
		name: "inflight of a tool",
		text: `  limits: [{per: server, tool: x, inflight: 5}]
`,
		want: `parley.yaml:9:32: gateway.limits[0].tool: has no meaning here: calls in flight are limited for each server`,
	},
	{
		name: "inflight twice",
		text: `  limits:
    - {per: server, inflight: 5}
    - {per: server, server: notes, queue: 1}
`,
		want: `parley.yaml:11:7: gateway.limits[1]: can never apply: the limit on line 10 applies to all its servers`,
	},
	{
		name: "route without members",
		text: `  routes: [{}]
`,
		shape: true,
		want: `parley.yaml:9:12: gateway.routes[0]: has no method: use "*" for all methods
parley.yaml:9:12: gateway.routes[0]: has no to: name a server or a group`,
	},
	{
		name: "route to an unknown server",
		text: `  routes: [{method: a, to: biling}, {method: b, to: billing-a}, {method: c, to: off}, {method: d, to: files}]
`,
		want: `parley.yaml:9:28: gateway.routes[0].to: "biling" is not a server or group of the file; did you mean billing?
parley.yaml:9:81: gateway.routes[2].to: "off" is disabled
parley.yaml:9:103: gateway.routes[3].to: "files" has the protocol mcp, and routes lead to servers with the protocol jsonrpc or a2a`,
	},
	{
		name: "route that never matches",
		text: `  routes:
    - {method: "billing.*", to: plain}
    - {method: "billing.get*|billing.set", to: plain}
`,
		want: `parley.yaml:11:7: gateway.routes[1]: can never match: the route on line 10 matches all its methods`,
	},
	{
		name: "route after all",
		text: `  routes:
    - {method: "*", to: plain}
    - {method: a, to: plain}
`,
		want: `parley.yaml:11:7: gateway.routes[1]: can never match: the route on line 10 matches all its methods`,
	},
	{
		name: "strip",
		text: `  routes: [{method: "billing.*|bill", to: plain, strip: "billing."}, {method: "a.", to: plain, strip: "a."}]
`,
		want: `parley.yaml:9:57: gateway.routes[0].strip: is not the start of all methods of the route: "bill" may start with something else
parley.yaml:9:103: gateway.routes[1].strip: leaves nothing of the method "a."`,
	},
	{
		name: "idempotent of other methods",
		text: `  routes: [{method: "a.*", to: plain, idempotent: ["b.get*"]}]
`,
		want: `parley.yaml:9:51: gateway.routes[0].idempotent: "b.get*" can never match: it has no methods of the route`,
	},
	{
		name: "idempotent is a number",
		text: `  routes: [{method: "a.*", to: plain, idempotent: {a: 1}}]
`,
		shape: true,
		want:  `parley.yaml:9:51: gateway.routes[0].idempotent: is a mapping, but must be a text or a list of texts`,
	},
	{
		name: "retry",
		text: `  routes: [{method: "a.*", to: plain, retry: {attempts: 0, backof: 1s}}]
`,
		shape: true,
		want: `parley.yaml:9:57: gateway.routes[0].retry.attempts: is 0, but must be from 1 to 10
parley.yaml:9:60: gateway.routes[0].retry.backof: unknown member; did you mean backoff?`,
	},
	{
		name: "hedge",
		text: `  routes: [{method: "a.*", to: plain, hedge: {after: p42}}, {method: "b.*", to: billing, idempotent: true, hedge: {after: 5ms, min: 1ms}}]
`,
		shape: true,
		want: `parley.yaml:9:46: gateway.routes[0].hedge: needs idempotent: a hedge sends a call twice
parley.yaml:9:46: gateway.routes[0].hedge: needs a group of two or more servers, and "plain" is one server
parley.yaml:9:54: gateway.routes[0].hedge.after: "p42" is not known: use a duration, or p50, p75, p90, p95 or p99
parley.yaml:9:133: gateway.routes[1].hedge.min: has no meaning with a fixed time in after`,
	},
	{
		name: "cache",
		text: `  routes: [{method: "a.*", to: plain, cache: {methods: ["b.x"], scope: public}}]
`,
		shape: true,
		want: `parley.yaml:9:46: gateway.routes[0].cache: has no ttl
parley.yaml:9:56: gateway.routes[0].cache.methods: "b.x" can never match: it has no methods of the route
parley.yaml:9:72: gateway.routes[0].cache.scope: "public" is not known: use private or shared`,
	},
	{
		name: "set of unknown servers",
		text: `  mcp: {sets: {default: {servers: [nots, plain, off, billing-a]}}}
`,
		want: `parley.yaml:9:36: gateway.mcp.sets.default.servers[0]: "nots" is not a server or group of the file; did you mean notes?
parley.yaml:9:42: gateway.mcp.sets.default.servers[1]: "plain" has the protocol jsonrpc, and a set has MCP servers
parley.yaml:9:49: gateway.mcp.sets.default.servers[2]: "off" has the protocol jsonrpc, and a set has MCP servers
parley.yaml:9:54: gateway.mcp.sets.default.servers[3]: "billing-a" is in the group billing; use the name of the group`,
	},
	{
		name: "set of a routed server",
		text: `  mcp: {sets: {default: {servers: [billing]}}}
  routes: [{method: "*", to: billing}]
`,
		want: `parley.yaml:9:36: gateway.mcp.sets.default.servers[0]: "billing" has a route, so its protocol is jsonrpc; set its protocol to mcp, or remove it here`,
	},
	{
		name: "names of sets",
		text: `  mcp: {sets: {"my set": {servers: [notes]}, sse: {servers: [notes]}, other: {}, none: {servers: []}}}
`,
		shape: true,
		want: `parley.yaml:9:16: gateway.mcp.sets.my set: is not a name for a set: use 1 to 24 letters, digits and -; did you mean my-set?
parley.yaml:9:46: gateway.mcp.sets.sse: is not a name for a set: /mcp/sse is the older transport of the default set
parley.yaml:9:71: gateway.mcp.sets.other: has no servers
parley.yaml:9:98: gateway.mcp.sets.none.servers: is an empty list`,
	},
	{
		name: "prefix",
		text: `  mcp: {sets: {two: {servers: [notes, files], prefix: never}, one: {servers: [notes], prefix: no}}}
`,
		shape: true,
		want: `parley.yaml:9:55: gateway.mcp.sets.two.prefix: never is only for a set of one server, and this set has 2
parley.yaml:9:95: gateway.mcp.sets.one.prefix: "no" is not known: use always or never`,
	},
	{
		name: "server twice in a set",
		text: `  mcp: {sets: {two: {servers: [notes, notes]}}}
`,
		want: `parley.yaml:9:39: gateway.mcp.sets.two.servers[1]: "notes" is in the list twice`,
	},
	{
		name: "pins",
		text: `  mcp: {pins: lock}
`,
		shape: true,
		want:  `parley.yaml:9:15: gateway.mcp.pins: "lock" is not known: use off, warn, enforce or locked; did you mean locked?`,
	},
	{
		name: "search",
		text: `  mcp: {search: {abov: 5}}
`,
		shape: true,
		want: `parley.yaml:9:17: gateway.mcp.search: has no above
parley.yaml:9:18: gateway.mcp.search.abov: unknown member; did you mean above?`,
	},
	{
		name: "search above zero",
		text: `  mcp: {search: {above: 0}}
`,
		shape: true,
		want:  `parley.yaml:9:25: gateway.mcp.search.above: is 0, but must be from 1 to 10000`,
	},
	{
		name: "breaker",
		text: `  upstream: {breaker: {failures: 0, open: 2m, max: 1m}, health: {every: 1ms}}
`,
		shape: true,
		want: `parley.yaml:9:34: gateway.upstream.breaker.failures: is 0, but must be from 1 to 1000
parley.yaml:9:52: gateway.upstream.breaker.max: is a contradiction: the breaker opens for 2m, but for at most 1m
parley.yaml:9:73: gateway.upstream.health.every: is 1ms, but must be from 100ms to 24h`,
	},
	{
		name: "breaker is on",
		text: `  upstream: {breaker: on, health: true}
`,
		shape: true,
		want: `parley.yaml:9:23: gateway.upstream.breaker: is a text, but must be a mapping
parley.yaml:9:35: gateway.upstream.health: is true or false, but must be a mapping`,
	},
	{
		name: "files that are one",
		text: `  audit: {file: log.jsonl}
  capture: {file: log.jsonl}
`,
		want: `parley.yaml:10:19: gateway.capture.file: is also the file of the audit log`,
	},
	{
		name: "capture without a file",
		text: `  capture: {keep: 1GiB}
`,
		shape: true,
		want:  `parley.yaml:9:12: gateway.capture: has no file`,
	},
	{
		name: "name of an MCP server",
		text: `servers:
  my_notes: {url: "http://127.0.0.1:1/mcp"}
  "a b": {url: "http://127.0.0.1:1/rpc", protocol: jsonrpc}
  a-name-that-is-longer-than-24: {command: x}
gateway: {}
`,
		whole: true,
		want: `parley.yaml:2:3: servers.my_notes: is not a name for a server: use 1 to 24 letters, digits and -, because it becomes part of the names of tools; did you mean my-notes?
parley.yaml:3:3: servers.a b: is not a name for a server: use 1 to 64 letters, digits, ., _ and -; did you mean a-b?
parley.yaml:4:3: servers.a-name-that-is-longer-than-24: is not a name for a server: use 1 to 24 letters, digits and -, because it becomes part of the names of tools; did you mean a-name-that-is-longer-th?`,
	},
	{
		name: "two credentials",
		text: `servers:
  a: {url: "http://u:p@127.0.0.1:1/mcp", headers: {Authorization: abcd}}
  b:
    url: "http://127.0.0.1:1/mcp"
    headers: {X-Api-Key: abcd}
    oauth: {grant: client_credentials, clientId: a, clientSecret: b}
gateway: {}
`,
		whole: true,
		want: `parley.yaml:2:12: servers.a.url: is not a valid address
parley.yaml:6:12: servers.b.oauth: is a second credential beside headers: a server gets exactly one`,
	},
	{
		name: "exchange",
		text: `servers:
  a:
    url: "http://127.0.0.1:1/mcp"
    exchange: {tokenEndpoint: "http://id.example/token"}
  b: {url: "http://127.0.0.1:1/mcp", exchange: {tokenEndpoint: "https://id.example/token", clientId: a, audience: b}}
  c: {url: "http://127.0.0.1:1/mcp", forwardToken: true}
gateway: {}
`,
		shape: true,
		whole: true,
		want: `parley.yaml:4:15: servers.a.exchange: has no clientId
parley.yaml:4:15: servers.a.exchange: has no audience: it names the server for which the token is
parley.yaml:4:15: servers.a.exchange: needs gateway.identity.oauth: it exchanges the access token of the caller
parley.yaml:4:31: servers.a.exchange.tokenEndpoint: must start with https://; http:// is only for this machine
parley.yaml:5:48: servers.b.exchange: needs gateway.identity.oauth: it exchanges the access token of the caller
parley.yaml:6:52: servers.c.forwardToken: needs gateway.identity: without it callers send no token`,
	},
	{
		name: "oauth grant",
		text: `servers:
  a: {url: "http://127.0.0.1:1/mcp", oauth: {grant: password, clientId: a}}
  b: {url: "http://127.0.0.1:1/mcp", oauth: {}}
gateway: {}
`,
		shape: true,
		whole: true,
		want: `parley.yaml:2:53: servers.a.oauth.grant: "password" is not supported: use client_credentials
parley.yaml:3:45: servers.b.oauth: has no grant: use client_credentials
parley.yaml:3:45: servers.b.oauth: has no clientId`,
	},
	{
		name: "headers of clients",
		text: `servers:
  a: {url: "http://127.0.0.1:1/mcp", forwardHeaders: [authorization, Cookie, Host, X-Forwarded-For, "a b", X-Tenant]}
  b: {url: "http://127.0.0.1:1/mcp", headers: {Content-Length: "5"}}
gateway: {}
`,
		whole: true,
		want: `parley.yaml:2:55: servers.a.forwardHeaders[0]: is the client's token: use forwardToken, exchange or oauth
parley.yaml:2:70: servers.a.forwardHeaders[1]: is never sent upstream, because it belongs to the gateway
parley.yaml:2:78: servers.a.forwardHeaders[2]: Host is set by the gateway itself
parley.yaml:2:84: servers.a.forwardHeaders[3]: X-Forwarded-For is set by the gateway itself
parley.yaml:2:101: servers.a.forwardHeaders[4]: "a b" is not the name of a header
parley.yaml:3:64: servers.b.headers.Content-Length: Content-Length is set by the gateway itself`,
	},
	{
		name: "programs",
		text: `servers:
  a: {command: x, forwardToken: true, forwardHeaders: [X-A]}
  b: {url: "http://127.0.0.1:1/mcp", processes: {max: 3}}
  c: {command: x, processes: {max: 65, idle: 5}}
gateway: {identity: {tokens: tokens.yaml}}
`,
		shape: true,
		whole: true,
		want: `parley.yaml:2:33: servers.a.forwardToken: is for servers with an HTTP address, and this one has none
parley.yaml:2:55: servers.a.forwardHeaders: is for servers with an HTTP address, and this one has none
parley.yaml:3:55: servers.b.processes.max: is for programs, and this server has an address
parley.yaml:4:36: servers.c.processes.max: is 65, but must be from 1 to 64
parley.yaml:4:46: servers.c.processes.idle: is a number without a unit; did you mean 5s or 5ms?`,
	},
	{
		name: "other protocols",
		text: `servers:
  a: {url: "http://127.0.0.1:1/rpc", protocol: jsonrpc, tools: {deny: [x]}, push: deny}
  b: {url: "http://127.0.0.1:1/mcp", health: {method: ping}}
gateway: {}
`,
		whole: true,
		want: `parley.yaml:2:64: servers.a.tools: is for MCP servers, and the protocol of this one is jsonrpc
parley.yaml:2:83: servers.a.push: is for A2A agents, and the protocol of this server is jsonrpc
parley.yaml:3:55: servers.b.health.method: is for servers with the protocol jsonrpc; this one is checked as its protocol mcp does it`,
	},
	{
		name: "connection",
		text: `servers:
  a: {command: x, connection: sesion, required: maybe, push: later}
gateway: {}
`,
		shape: true,
		whole: true,
		want: `parley.yaml:2:31: servers.a.connection: "sesion" is not known: use auto, shared, principal or session; did you mean session?
parley.yaml:2:49: servers.a.required: is a text, but must be true or false
parley.yaml:2:62: servers.a.push: "later" is not known: use deny or direct
parley.yaml:2:62: servers.a.push: is for A2A agents, and the protocol of this server is mcp`,
	},
	{
		name: "groups",
		text: `servers:
  a: {command: x, group: b}
  b: {command: x}
  c: {command: x, group: "g g"}
  d: {command: x, group: g}
  e: {command: x, group: g, protocol: jsonrpc}
gateway: {}
`,
		whole: true,
		want: `parley.yaml:2:26: servers.a.group: is also the name of a server
parley.yaml:4:26: servers.c.group: is not a name for a group; did you mean g-g?
parley.yaml:6:26: servers.e.group: has servers of two protocols: d is mcp, and e is jsonrpc`,
	},
	{
		name: "a secret that is not there",
		text: `servers:
  a: {url: "http://127.0.0.1:1/mcp", headers: {X-Api-Key: "${env:NOPE}"}}
  b: {url: "http://127.0.0.1:1/mcp", headers: {X-Api-Key: "${file:/none}"}}
gateway: {}
`,
		whole: true,
		want: `parley.yaml:2:59: servers.a.headers.X-Api-Key: NOPE is not set
parley.yaml:3:59: servers.b.headers.X-Api-Key: file:/none cannot be read: file does not exist`,
	},
	{
		name: "a broken server is not unknown",
		text: `servers:
  a: http://127.0.0.1:1/rpc
gateway:
  routes: [{method: "*", to: a}]
`,
		shape: true,
		whole: true,
		want:  `parley.yaml:2:6: servers.a: is a text, but must be a mapping`,
	},
	{
		name: "no servers",
		text: `gateway: {}
`,
		whole: true,
		want:  `parley.yaml:1:1: the file lists no servers: it has neither servers nor mcpServers`,
	},
	{
		name: "servers and gateway twice",
		text: `servers: {a: {command: x}}
servers: {b: {command: x}}
gateway: {}
gateway: {}
`,
		shape: true,
		whole: true,
		want: `parley.yaml:2:1: duplicate name "servers"
parley.yaml:4:1: duplicate name "gateway"`,
	},
}
