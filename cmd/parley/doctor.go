package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"path"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/jsonrpc"
)

const doctorHelp = `Test the connection to a server step by step: name, TCP, TLS, HTTP, well-known documents, protocol
version, authentication. The first step that fails is named, with its fix.

  parley doctor :3000/rpc
  parley doctor tcp://127.0.0.1:3001 -o json
  parley doctor -- parley demo --mcp --stdio

Without a target, it checks the configuration files of MCP clients on this machine for their usual
faults: variables that are not set, and programs that desktop applications do not find. With
--start it also starts their programs, and detects those that print other text than messages.

The exit code is 0 if every step passed, else that of the first failed step: 2 configuration, 3
authentication, 4 unreachable or nothing there, 6 the server breaks the protocol.`

// States of a step.
const (
	stepOK      = "ok"
	stepFailed  = "failed"
	stepSkipped = "skipped"
)

// A step is one test of the connection.
type step struct {
	Name   string `json:"step"`
	State  string `json:"state"`
	Detail string `json:"detail,omitzero"`
	Fix    string `json:"fix,omitzero"`
	Exit   int    `json:"exit,omitzero"`
}

// A diagnosis is the result of all steps.
type diagnosis struct {
	Target  string  `json:"target"`
	OK      bool    `json:"ok"`
	Failed  string  `json:"failed,omitzero"` // the first failed step
	Steps   []step  `json:"steps"`
	Clients []fault `json:"clients,omitzero"` // faults of client files that concern this target or all
}

// A doctor runs the steps of one target.
type doctor struct {
	*survey
	result diagnosis
	dialer *parley.Dialer
	client *http.Client
	denied string // how the server refused a request without sufficient credentials
}

func (a *app) doctorCommand() *cobra.Command {
	var (
		s      = &survey{app: a, login: loginFlags{how: loginNever}}
		output outputFlags
		start  bool
	)
	cmd := &cobra.Command{
		Use:   "doctor [TARGET]",
		Short: "find out why a server cannot be reached, and how to fix it",
		Long:  doctorHelp,
		RunE: func(cmd *cobra.Command, words []string) (err error) {
			if output.jq != "" && output.format == formText {
				output.format = "json"
			}
			if s.printer, err = a.printer(output); err != nil {
				return err
			}
			if len(words) == 0 && !a.hasArgv {
				return s.checkClients(cmd.Context(), start)
			}
			words, end, err := s.open(cmd.Context(), words, output.colour)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, end()) }()
			if len(words) > 0 {
				return usagef("unexpected argument %q: doctor takes one TARGET", cut(words[0], 60))
			}
			d := &doctor{survey: s, result: diagnosis{Target: s.target.String()}}
			return d.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.BoolVar(&start, "start", false, "without a target: also start the programs of the configuration files")
	output.registerWith(cmd, formText, append([]string{formText}, forms...))
	s.reach.register(cmd)
	s.protocolFlag(cmd)
	cmd.ValidArgsFunction = a.completeSurvey(s, false)
	return cmd
}

// run runs all steps and prints the diagnosis.
func (d *doctor) run(ctx context.Context) error {
	if d.reach.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.reach.timeout)
		defer cancel()
	}
	var err error
	if d.dialer, err = d.survey.dialer(); err != nil {
		return err
	}
	exit := d.examine(ctx)
	if errors.Is(context.Cause(ctx), errInterrupted) {
		return &shownError{"cancelled", errInterrupted}
	}
	d.result.OK = exit == exitOK
	if d.target.Scheme == "exec" {
		d.result.Clients = faultsOf(d.target.Argv[0])
	}
	if err := d.print(ctx); err != nil {
		return err
	}
	if exit != exitOK {
		return &silentError{exit}
	}
	return nil
}

// examine runs the steps until one fails, and returns the exit code.
func (d *doctor) examine(ctx context.Context) int {
	type test struct {
		name string
		run  func(context.Context) step
	}
	var tests []test
	t := d.target
	secure := strings.HasSuffix(t.Scheme, "https") || t.Scheme == "wss" || t.Scheme == "tls"
	switch t.Scheme {
	case "exec":
		tests = []test{{"program", d.program}, {"protocol", d.protocol}, {"authentication", d.authentication}}
	case "unix":
		tests = []test{{"socket", d.tcp}, {"protocol", d.protocol}, {"authentication", d.authentication}}
	default:
		tests = []test{{"dns", d.dns}, {"tcp", d.tcp}}
		if secure {
			tests = append(tests, test{"tls", d.tls})
		}
		if isWeb(t) {
			tests = append(tests, test{"http", d.http}, test{"well-known", d.wellKnown})
		}
		tests = append(tests, test{"protocol", d.protocol}, test{"authentication", d.authentication})
	}
	exit := exitOK
	for _, one := range tests {
		if exit != exitOK {
			d.result.Steps = append(d.result.Steps, step{Name: one.name, State: stepSkipped})
			continue
		}
		s := one.run(ctx)
		s.Name = one.name
		if s.State == stepFailed {
			exit, d.result.Failed = s.Exit, one.name
		}
		d.result.Steps = append(d.result.Steps, s)
	}
	return exit
}

func passed(format string, args ...any) step {
	return step{State: stepOK, Detail: fmt.Sprintf(format, args...)}
}

// failed returns a failed step with the reason and its fix.
func (d *doctor) failed(exit int, err error, fix string) step {
	text := inOneLine(err.Error())
	if isLate(err) {
		text = fmt.Sprintf("no response within %s (--timeout)", d.reach.timeout)
	}
	return step{State: stepFailed, Detail: visible(d.app.secrets.Address(text), 400), Fix: fix, Exit: exit}
}

// hostAndPort returns the host and the port that the target connects to.
func (d *doctor) hostAndPort() (host, port string) {
	host, port, err := net.SplitHostPort(d.target.Address)
	if err == nil && port != "" {
		return host, port
	}
	host = strings.Trim(d.target.Address, "[]")
	if strings.HasSuffix(d.target.Scheme, "https") || d.target.Scheme == "wss" {
		return host, "443"
	}
	return host, "80"
}

// dns looks the host up.
func (d *doctor) dns(ctx context.Context) step {
	host, _ := d.hostAndPort()
	if net.ParseIP(host) != nil {
		return passed("%s is an address", host)
	}
	all, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		if e, ok := errors.AsType[*net.DNSError](err); ok && e.IsNotFound {
			return d.failed(exitAway, fmt.Errorf("the name %s does not exist", host), "check the spelling of the host, or whether it is known only inside a VPN")
		}
		return d.failed(exitAway, err, "check the network and the name server of this machine")
	}
	return passed("%s is %s", host, strings.Join(all[:min(len(all), 4)], ", "))
}

// tcp connects to the port or the Unix socket.
func (d *doctor) tcp(ctx context.Context) step {
	network, address := "tcp", d.target.Address
	if d.target.Scheme == "unix" {
		network = "unix"
	} else {
		address = net.JoinHostPort(d.hostAndPort())
	}
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		reason := (&dialError{d.target, err}).Error()
		fix := "start the server, or check the port: nothing listens at " + address
		switch {
		case isLate(err) || is[net.Error](err) && strings.Contains(reason, "timeout"):
			fix = "a firewall may drop the packets: check it, and the address"
		case network == "unix" && strings.Contains(reason, "no such file"):
			fix = "start the server, or check the path of the socket"
		case strings.Contains(reason, "permission denied"):
			fix = "run as the user who owns the socket, or change its mode"
		}
		if isLate(err) {
			return d.failed(exitAway, err, fix)
		}
		return d.failed(exitAway, errors.New(reason), fix)
	}
	remote := c.RemoteAddr().String()
	_ = c.Close() // only the connection was tested
	return passed("connected to %s", orElse(remote, address))
}

// tls performs a TLS handshake.
func (d *doctor) tls(ctx context.Context) step {
	host, port := d.hostAndPort()
	c := d.dialer.TLS.Clone()
	if c == nil {
		c = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if c.ServerName == "" {
		c.ServerName = host
	}
	conn, err := (&tls.Dialer{Config: c}).DialContext(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		plain := strings.Replace(strings.Replace(d.target.String(), "wss://", "ws://", 1), "https://", "http://", 1)
		fix := "check that the server supports TLS 1.2 or later"
		switch {
		case is[tls.RecordHeaderError](err):
			return d.failed(exitAway, errors.New("the server does not use TLS at this port"), "try "+strings.Replace(plain, "tls://", "tcp://", 1))
		case is[x509.UnknownAuthorityError](err):
			fix = "trust its certificate with --tls-ca FILE, or try -k, which accepts any"
		case is[x509.HostnameError](err):
			fix = "use a name that the certificate has"
			if e, _ := errors.AsType[x509.HostnameError](err); e.Certificate != nil && len(e.Certificate.DNSNames) > 0 {
				fix += ": " + visible(strings.Join(e.Certificate.DNSNames, ", "), 200)
			}
		case is[x509.CertificateInvalidError](err):
			fix = "renew the certificate of the server, or check the clock of this machine"
		}
		return d.failed(exitAway, err, fix)
	}
	defer conn.Close()
	state := conn.(*tls.Conn).ConnectionState()
	text := tls.VersionName(state.Version)
	if len(state.PeerCertificates) > 0 {
		text += ", certificate valid until " + state.PeerCertificates[0].NotAfter.UTC().Format(time.DateOnly)
	}
	if c.InsecureSkipVerify {
		text += ", not verified (--insecure)"
	}
	return passed("%s", text)
}

// maxProbe is the maximum size of a body that is read for a diagnosis, in bytes.
const maxProbe = 64 << 10

// probe is a request that every JSON-RPC server answers, with a result or an error.
const probe = `{"jsonrpc":"2.0","id":1,"method":"rpc.discover"}`

// A head is the status and the header of an HTTP response.
type head struct {
	StatusCode int
	Status     string
	Header     http.Header
}

// send sends one HTTP request and returns the head of the response and the begin of its body.
func (d *doctor) send(ctx context.Context, method, address, body string) (*head, string, error) {
	if d.client == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.TLSClientConfig, t.DisableKeepAlives = d.dialer.TLS, true
		d.client = &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	r, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	for name, values := range d.dialer.Header {
		r.Header[name] = values
	}
	if d.dialer.Token != "" {
		r.Header.Set("Authorization", "Bearer "+d.dialer.Token)
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := d.client.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	top := &head{resp.StatusCode, resp.Status, resp.Header}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return top, "", nil // it may never end
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxProbe))
	return top, string(text), err
}

// http posts a request and examines the status.
func (d *doctor) http(ctx context.Context) step {
	address := strings.TrimPrefix(d.target.URL(), "sse+")
	method, body := http.MethodPost, probe
	if strings.HasPrefix(d.target.Scheme, "sse+") {
		method, body = http.MethodGet, ""
	}
	resp, text, err := d.send(ctx, method, address, body)
	if isLate(err) {
		return d.failed(exitAway, err, d.protocolFix(err))
	}
	if err != nil {
		return d.failed(exitAway, errors.New(bareReasonOf(err)), "the server accepts connections, but does not speak HTTP here: try tcp:// or tls://")
	}
	status := fmt.Sprintf("%s is answered with %s", method, resp.Status)
	switch {
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		d.denied = "HTTP " + resp.Status
		if how := resp.Header.Get("WWW-Authenticate"); how != "" {
			d.denied += ", WWW-Authenticate: " + visible(how, 200)
		}
	case resp.StatusCode == http.StatusBadRequest && strings.Contains(text, "HTTP request to an HTTPS server"):
		return d.failed(exitAway, errors.New("the server uses TLS at this port"), "try "+strings.Replace(d.target.String(), "http://", "https://", 1))
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		return d.failed(exitAway, errors.New(status), "use the address that it redirects to: "+visible(resp.Header.Get("Location"), 300))
	case resp.StatusCode >= 500:
		return d.failed(exitAway, errors.New(status), "the server or its proxy failed: see its log")
	case resp.StatusCode == http.StatusNotFound && d.elsewhere(ctx) == "" && d.isREST(ctx):
	case resp.StatusCode == http.StatusNotFound, resp.StatusCode == http.StatusMethodNotAllowed && method == http.MethodPost:
		if d.isREST(ctx) {
			return passed("GET is answered; %s", status)
		}
		fix := "check the path of the address"
		if other := d.elsewhere(ctx); other != "" {
			fix = "nothing is at " + orElse(d.target.Path, "/") + ": try " + other
		}
		return d.failed(exitAway, errors.New(status), fix)
	}
	return passed("%s", status)
}

// isREST reports whether the address is that of a REST binding or of an agent card, which is read
// with GET.
func (d *doctor) isREST(ctx context.Context) bool {
	for _, suffix := range []string{"/agents", "/ping", ""} {
		resp, text, err := d.send(ctx, http.MethodGet, strings.TrimSuffix(d.target.URL(), "/")+suffix, "")
		if err == nil && resp.StatusCode == http.StatusOK {
			if _, err := jsonrpc.ParseRaw([]byte(text)); err == nil {
				return true
			}
		}
	}
	return false
}

// elsewhere returns another address of the same server where a JSON-RPC server responds, or "".
func (d *doctor) elsewhere(ctx context.Context) string {
	base := d.target.Scheme + "://" + d.target.Address
	for _, where := range []string{"/rpc", "/mcp", "/", "/jsonrpc", "/acp/rpc", "/a2a"} {
		if path.Clean("/"+d.target.Path) == path.Clean(where) {
			continue
		}
		resp, text, err := d.send(ctx, http.MethodPost, base+where, probe)
		if err == nil && resp.StatusCode < 500 && strings.Contains(text, `"jsonrpc"`) {
			return base + where
		}
	}
	return ""
}

// wellKnown looks for the documents that agents and authorization servers publish.
func (d *doctor) wellKnown(ctx context.Context) step {
	u, err := url.Parse(strings.TrimPrefix(d.target.URL(), "sse+"))
	if err != nil {
		return d.failed(exitUsage, err, "check the address")
	}
	names := []string{"/.well-known/agent-card.json", "/.well-known/agent.json", "/.well-known/oauth-protected-resource", "/.well-known/oauth-authorization-server"}
	if u.Path != "" && u.Path != "/" {
		names = append(names, "/.well-known/oauth-protected-resource"+strings.TrimSuffix(u.Path, "/"))
	}
	var found []string
	for _, name := range names {
		resp, text, err := d.send(ctx, http.MethodGet, u.Scheme+"://"+u.Host+name, "")
		if err != nil {
			return d.failed(exitAway, errors.New(bareReasonOf(err)), "the server answered before: see its log")
		}
		if resp.StatusCode != http.StatusOK {
			continue
		}
		if _, err := jsonrpc.ParseRaw([]byte(text)); err != nil {
			continue // a page for every path
		}
		found = append(found, name)
	}
	if found == nil {
		return passed("none; they are optional")
	}
	return passed("%s", strings.Join(found, ", "))
}

// bareReasonOf returns the innermost reason of an error of the HTTP client.
func bareReasonOf(err error) string {
	if isLate(err) {
		return "no response in time (--timeout)"
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	return err.Error()
}

// program looks for the program of the target.
func (d *doctor) program(context.Context) step {
	name := d.target.Argv[0]
	file, err := exec.LookPath(name)
	if err != nil {
		fix := "install it, or write its path: no folder of PATH has " + name
		if strings.ContainsAny(name, `/\`) {
			fix = "check the path, and that the file may be executed (chmod +x)"
		}
		return d.failed(exitAway, err, fix)
	}
	return passed("%s", file)
}

// printedTime bounds how long the detection of a protocol continues after the server sent something
// that is not JSON.
const printedTime = time.Second

// protocol detects the protocol and its version. Text that a program prints between its messages
// fails the step.
func (d *doctor) protocol(ctx context.Context) step {
	own := *d.survey
	own.tracer = d.tracer.again()
	own.screen = &screen{w: &programLines{w: d.app.stderr, seen: map[string]bool{}}}
	if left, ok := ctx.Deadline(); ok {
		own.reach.timeout = time.Until(left)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var printed string
	own.tracer.watch = func(f parley.Frame) {
		if !f.Out && printed == "" && !isWeb(d.target) && len(strings.TrimSpace(string(f.Payload))) > 0 {
			if _, err := jsonrpc.ParseRaw(f.Payload); err != nil {
				printed = string(f.Payload)
				time.AfterFunc(printedTime, cancel) // the step fails anyway
			}
		}
	}
	c, err := own.find(ctx)
	own.tracer.mu.Lock() // a program may still print
	text := printed
	own.tracer.watch = nil
	own.tracer.mu.Unlock()
	switch {
	case text != "" && d.target.Scheme == "exec":
		return d.failed(exitProtocol, fmt.Errorf("the program printed text to stdout: %q", cut(strings.TrimSpace(text), 100)), "write logs and banners to stderr: stdout is for messages only")
	case text != "":
		fix := "the server does not send one JSON text per line: try ?framing=header, or check what listens there"
		if strings.HasPrefix(text, "HTTP/") {
			return d.failed(exitAway, fmt.Errorf("the server sent %q", cut(strings.TrimSpace(text), 100)), "the server speaks HTTP: try http://"+d.target.Address)
		}
		return d.failed(exitProtocol, fmt.Errorf("the server sent %q", cut(strings.TrimSpace(text), 100)), fix)
	case err != nil && (isAuth(err) || exitCode(err) == exitAuth || d.denied != ""):
		d.denied = orElse(d.denied, inOneLine(err.Error()))
		return step{State: stepSkipped, Detail: "the server requires authentication first"}
	case err != nil:
		return d.failed(max(exitCode(err), exitAway), err, d.protocolFix(err))
	}
	return passed("%s%s, %s", protocolTitle(c), mark(c.Name != "", ", "+visible(c.Name, 60)), countOf(len(c.Entries), "name")+" to list")
}

// programLines passes the lines that a program writes to its stderr, each once, because the program
// may be started several times. Our own reports about its messages are dropped.
type programLines struct {
	w    io.Writer
	seen map[string]bool
}

// maxProgramLines is the maximum number of different lines that are passed.
const maxProgramLines = 100

func (p *programLines) Write(line []byte) (int, error) {
	text := string(line)
	if strings.HasPrefix(text, "parley: ") || p.seen[text] || len(p.seen) >= maxProgramLines {
		return len(line), nil
	}
	p.seen[text] = true
	return p.w.Write(line)
}

func (d *doctor) protocolFix(err error) string {
	switch {
	case isLate(err):
		return "the server accepts connections but does not answer: see its log, or raise --timeout"
	case d.target.Scheme == "exec":
		return "run the program by hand and look at its stderr; it must speak a protocol on stdin and stdout"
	case errors.Is(err, errNothing):
		return "if it is a plain JSON-RPC server without discovery, use parley call; else select the protocol with --protocol"
	}
	return "check the protocol with --protocol, and look at the messages with -v"
}

// authentication reports how the server received the credentials.
func (d *doctor) authentication(context.Context) step {
	given := d.dialer.Token != "" || d.dialer.Header.Get("Authorization") != ""
	switch {
	case d.denied != "" && given:
		return d.failed(exitAuth, errors.New("the credentials were refused: "+d.denied), "check that the token is for this server and has not expired")
	case d.denied != "":
		return d.failed(exitAuth, errors.New("credentials are required: "+d.denied), "use --token-file FILE; for MCP with OAuth, parley mcp tools logs in")
	case given:
		return passed("the credentials are accepted")
	}
	return passed("no credentials required")
}

// print prints the diagnosis: as text one line per step.
func (d *doctor) print(ctx context.Context) error {
	p := d.printer
	switch {
	case p.format == "table":
		return p.print(ctx, rawOf(d.result.Steps))
	case p.format != formText:
		return p.print(ctx, rawOf(&d.result))
	}
	var b strings.Builder
	for _, s := range d.result.Steps {
		fmt.Fprintf(&b, "%-7s  %-14s  %s\n", s.State, s.Name, visible(s.Detail, 400))
		if s.Fix != "" {
			fmt.Fprintf(&b, "%-7s  %-14s  %s\n", "", "fix", visible(s.Fix, 400))
		}
	}
	for _, f := range d.result.Clients {
		fmt.Fprintf(&b, "%-7s  %-14s  %s\n", "note", "desktop", visible(f.Text, 400))
		fmt.Fprintf(&b, "%-7s  %-14s  %s\n", "", "fix", visible(f.Fix, 400))
	}
	_, err := io.WriteString(p.w, b.String())
	return err
}
