package conformance

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// describedRules returns rules that check the demo against its own description and the bounds of
// what it sends.
func describedRules() []Rule {
	rules := []Rule{
		talk(jsonrpc2+"8", "discover/methods", "rpc.discover", "all methods of the demo, and no other", func(_ *Demo, w Wire) error {
			doc, err := discover(w)
			if err != nil {
				return err
			}
			var names []string
			for _, m := range doc.member("methods").kids {
				names = append(names, m.member("name").text())
			}
			slices.Sort(names)
			want := "add ask countdown counter echo fail get_data get_log log_event login notify_hello notify_sum panic sleep subtract sum update whoami"
			if got := strings.Join(names, " "); got != want {
				return fmt.Errorf("the methods are %s", got)
			}
			return nil
		}),
		talk("OpenRPC 1.3, Example Pairing Object", "discover/examples", "each example of rpc.discover, by position and by name", "the result that it shows", examplesHold),
		// Once suffices for 16 MiB.
		onlyTCP(talk(limits2+": batch total response bytes", "limit/batch-bytes", "3,000 × rpc.discover in one array", "results up to 16 MiB, then -31003, in order", batchBytes)),
	}
	const streams = "Demo, an answer becomes an event stream"
	event := func(id, body, accept string, wants ...string) {
		rules = append(rules, Rule{ID: "stream/" + id, Source: streams, Sends: body + " with Accept: " + accept, Wants: strings.Join(wants, "; "), On: []string{HTTP, H2C}, check: func(d *Demo, carrier string) error {
			r, err := d.ask(carrier, body, accept)
			if err != nil {
				return err
			}
			return checkEvents(r, wants)
		}})
	}
	const both = "application/json, text/event-stream"
	tick := func(id string, left int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","method":"countdown/tick","params":{"request_id":%s,"left":%d}}`, id, left)
	}
	event("countdown", `{"jsonrpc":"2.0","id":7,"method":"countdown","params":[3]}`, both, tick("7", 3), tick("7", 2), tick("7", 1), ok("7", `"liftoff"`).String())
	event("countdown-string-id", `{"jsonrpc":"2.0","id":"a","method":"countdown","params":[1]}`, both, tick(`"a"`, 1), ok(`"a"`, `"liftoff"`).String())
	event("countdown-alone", `{"jsonrpc":"2.0","id":7,"method":"countdown","params":[1]}`, "text/event-stream", tick("7", 1), ok("7", `"liftoff"`).String())
	event("countdown-batch", `[{"jsonrpc":"2.0","id":7,"method":"countdown","params":[1]},`+good+`]`, both, tick("7", 1), "["+ok("7", `"liftoff"`).String()+","+ok("1", data).String()+"]")
	event("alone", good, "text/event-stream", ok("1", data).String())
	event("alone-null-id", `{"jsonrpc":"2.0","id":null,"method":"get_data"}`, "text/event-stream", ok("null", data).String())
	event("alone-batch", "["+good+"]", "text/event-stream", "["+ok("1", data).String()+"]")
	event("newlines", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\",\"params\":[\n1,\r\n2,\r3]}", "text/event-stream", `{"jsonrpc":"2.0","result":[1,2,3],"id":1}`)
	rules = append(rules, Rule{ID: "stream/comment", Source: "Times, timers", Sends: "sleep 17000 with Accept: text/event-stream", Wants: "a comment after 15 s, then the response", On: []string{HTTP}, slow: true, check: func(d *Demo, _ string) error {
		r, err := d.askWithin(`{"jsonrpc":"2.0","id":1,"method":"sleep","params":[17000]}`, "text/event-stream", 25*time.Second)
		if err != nil {
			return err
		}
		if !strings.Contains(string(r.body), ":\n") && !strings.HasPrefix(string(r.body), ":") {
			return fmt.Errorf("no comment: %s", short(r.body))
		}
		return checkEvents(r, []string{ok("1", "17000").String()})
	}})
	return append(rules, pressureRules()...)
}

func onlyTCP(r Rule) Rule {
	r.On = []string{TCP}
	return r
}

func discover(w Wire) (*node, error) {
	if err := say(w, `{"jsonrpc":"2.0","id":1,"method":"rpc.discover"}`); err != nil {
		return nil, err
	}
	n, err := hear(w)
	if err != nil {
		return nil, err
	}
	if n.member("result") == nil || n.member("result").member("methods") == nil {
		return nil, fmt.Errorf("not a description: %s", short(n.raw))
	}
	return n.member("result"), nil
}

// examplesHold calls the examples in the description. Stateful methods, and those that send
// requests, are omitted.
func examplesHold(d *Demo, w Wire) error {
	doc, err := discover(w)
	if err != nil {
		return err
	}
	tried := 0
	for _, m := range doc.member("methods").kids {
		name := m.member("name").text()
		if slices.Contains([]string{"ask", "countdown", "login", "whoami", "counter", "log_event", "get_log"}, name) || m.member("examples") == nil {
			continue
		}
		for _, e := range m.member("examples").kids {
			var values, members []string
			names := make(map[string]bool)
			for _, p := range e.member("params").kids {
				values = append(values, string(p.member("value").raw))
				members = append(members, string(p.member("name").raw)+":"+string(p.member("value").raw))
				names[p.member("name").text()] = true
			}
			forms := []string{"[" + strings.Join(values, ",") + "]"}
			structure := m.member("paramStructure")
			if len(m.member("params").kids) == len(values) && len(names) == len(values) && len(values) > 0 && !names["params"] && (structure == nil || structure.text() != "by-position") {
				forms = append(forms, "{"+strings.Join(members, ",")+"}")
			}
			for _, form := range forms {
				if err := say(w, `{"jsonrpc":"2.0","id":1,"method":"`+name+`","params":`+form+`}`); err != nil {
					return err
				}
				if err := expect(w, one(ok("1", string(e.member("result").member("value").raw)))); err != nil {
					return fmt.Errorf("%s %s: %w", name, form, err)
				}
				tried++
			}
		}
	}
	if tried < 10 {
		return fmt.Errorf("only %d examples", tried)
	}
	return d.probe(w)
}

func batchBytes(d *Demo, w Wire) error {
	const n = 3000
	members := make([]string, n)
	for i := range members {
		members[i] = fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"rpc.discover"}`, i)
	}
	if err := say(w, "["+strings.Join(members, ",")+"]"); err != nil {
		return err
	}
	message, err := recvWithin(w, 40*time.Second)
	if err != nil {
		return err
	}
	all, err := read(message)
	if err != nil {
		return err
	}
	if len(all.kids) != n {
		return fmt.Errorf("%d answers", len(all.kids))
	}
	refused, size := 0, 0
	for i, a := range all.kids {
		if a.member("error") == nil {
			size += len(a.raw)
			if err := ok(strconv.Itoa(i), "*").check(a); err != nil {
				return err
			}
			continue
		}
		refused++
		if err := (answer{id: strconv.Itoa(i), code: "-31003", data: "*"}).check(a); err != nil {
			return err
		}
	}
	if refused == 0 || size < 15<<20 || size > 18<<20 {
		return fmt.Errorf("%d bytes of results, %d answers refused", size, refused)
	}
	return d.probe(w)
}

// ask posts with an Accept header.
func (d *Demo) ask(carrier, body, accept string) (*reply, error) {
	if carrier == H2C {
		return d.request2(http.MethodPost, "/rpc", map[string]string{"Content-Type": "application/json", "Accept": accept}, []byte(body))
	}
	return d.askWithin(body, accept, patience)
}

func (d *Demo) askWithin(body, accept string, within time.Duration) (*reply, error) {
	w, err := d.dialWeb(d.web)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	if _, err := io.WriteString(w.s, fill(request{header: []string{"Accept: " + accept}, body: body}.text(), d.web)); err != nil {
		return nil, err
	}
	return w.read(http.MethodPost, within)
}

// checkEvents parses an event stream (HTML, section 9.2.6) and compares the data of its events with
// texts.
func checkEvents(r *reply, wants []string) error {
	if r.StatusCode != http.StatusOK || !strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream") {
		return fmt.Errorf("%s, %s: %s", r.Status, r.Header.Get("Content-Type"), short(r.body))
	}
	if !strings.Contains(r.Header.Get("Cache-Control"), "no-") {
		return fmt.Errorf("Cache-Control is %q", r.Header.Get("Cache-Control"))
	}
	var events, lines []string
	text := strings.ReplaceAll(strings.ReplaceAll(string(r.body), "\r\n", "\n"), "\r", "\n")
	if !strings.HasSuffix(text, "\n\n") {
		return fmt.Errorf("the last event is not complete: %s", short(r.body))
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		field, value, _ := strings.Cut(line, ":")
		switch {
		case line == "" && len(lines) > 0:
			events = append(events, strings.Join(lines, "\n"))
			lines = nil
		case field == "data":
			lines = append(lines, strings.TrimPrefix(value, " "))
		}
	}
	if len(events) != len(wants) {
		return fmt.Errorf("%d events: %s", len(events), short(r.body))
	}
	for i, want := range wants {
		have, err := read([]byte(events[i]))
		if err != nil {
			return fmt.Errorf("event %d: %w", i, err)
		}
		pattern, err := read([]byte(want))
		if err != nil {
			return err
		}
		if !same(have, pattern) {
			return fmt.Errorf("event %d is %s", i, short(have.raw))
		}
	}
	return nil
}

// same compares values. White space and the order of members are ignored.
func same(a, b *node) bool {
	if a.kind != b.kind || len(a.kids) != len(b.kids) || len(a.names) != len(b.names) {
		return false
	}
	if a.kind != '{' && a.kind != '[' {
		return string(a.raw) == string(b.raw)
	}
	for i, kid := range b.kids {
		other := (*node)(nil)
		if a.kind == '[' {
			other = a.kids[i]
		} else {
			other = a.member(b.names[i])
		}
		if other == nil || !same(other, kid) {
			return false
		}
	}
	return true
}

// ownDemo runs f on a separate demo, which it may load at will.
func ownDemo(f func(d *Demo) error, flags ...string) func(d *Demo, _ string) error {
	return func(d *Demo, _ string) error {
		dir, err := os.MkdirTemp("", "conformance-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		own, err := Start(context.Background(), d.program, dir, flags...)
		if err != nil {
			return err
		}
		err = f(own)
		if err != nil {
			_ = own.process.Process.Kill()
			<-own.ended
			_ = own.process.Wait()
			return err
		}
		return own.Stop()
	}
}

// pressureRules returns the rules about overload.
func pressureRules() []Rule {
	const queues = "Limits, one conversation"
	return []Rule{
		{ID: "pressure/process", Source: queues, Sends: "4,096 sleeps on 16 connections, then a call of others on each transport", Wants: "-31001 for some of the sleeps; the calls of others get responses", On: []string{HTTP}, slow: true, check: ownDemo(fullProcess)},
		{ID: "pressure/reader-that-sleeps", Source: queues, Sends: "echoes of 1 MiB that are not read", Wants: "closed within slightly more than 10 s, others not delayed", On: []string{TCP, Unix, WebSocket, TCPHeader}, slow: true, check: func(d *Demo, carrier string) error {
			return slowReader(d, carrier)
		}},
		{ID: "pressure/notifications", Source: queues, Sends: "300 sleeps, then 12 MiB of notifications that wait after them", Wants: "the connection ends; a WebSocket with 1013", On: []string{TCP, Unix, WebSocket, TCPHeader}, check: floodOfNotifications},
		{ID: "pressure/gone", Source: "Bad input, client gone", Sends: "4,096 sleeps; then their connections are reset (TCP) or cut (WebSocket)", Wants: "all places are free again long before the sleeps end", On: []string{TCP, WebSocket}, slow: true, check: func(d *Demo, carrier string) error {
			return ownDemo(func(d *Demo) error {
				if err := gone(d, carrier, func() error { return nil }); err != nil {
					return err
				}
				var err error
				for start := time.Now(); time.Since(start) < 30*time.Second; {
					if err = allRun(d, carrier); err == nil {
						return nil
					}
				}
				return fmt.Errorf("half a minute later: %w", err)
			})(d, carrier)
		}},
		{ID: "pressure/open-brackets", Source: "Limits, attacks", Sends: "4 MiB of [ on 8 connections", Wants: "-32600, alive", On: []string{TCP, WebSocket, HTTP}, check: func(d *Demo, carrier string) error {
			var wg sync.WaitGroup
			errs := make([]error, 8)
			for i := range errs {
				wg.Go(func() {
					errs[i] = d.exchange(carrier, []byte(strings.Repeat("[", 4<<20)), one(fault("null", -32600)))
				})
			}
			wg.Wait()
			return errors.Join(errs...)
		}},
		{ID: "pressure/tls", Source: "Demo, TLS", Sends: "the examples over tls, wss and https", Wants: "the responses of section 7", On: []string{HTTP}, check: overTLS},
	}
}

func fullProcess(d *Demo) error {
	return gone(d, TCP, func() error {
		const sum = `{"jsonrpc":"2.0","id":1,"method":"sum","params":[1]}`
		if err := d.post(HTTP, []byte(sum), one(ok("1", "1"))); err != nil {
			return err
		}
		for _, carrier := range []string{TCP, Unix, WebSocket, TCPHeader} {
			if err := d.exchange(carrier, []byte(sum), one(ok("1", "1"))); err != nil {
				return fmt.Errorf("%s: %w", carrier, err)
			}
		}
		// A quick method needs no slot.
		return within(20*time.Second, func() error { return d.post(HTTP, []byte(good), one(ok("1", data))) })
	})
}

// gone takes all places of a process that callers with running requests can have, runs meanwhile,
// and closes the connections without notice.
func gone(d *Demo, carrier string, meanwhile func() error) error {
	var wires []Wire
	for range 16 {
		w, err := d.dial(carrier)
		if err != nil {
			return err
		}
		defer w.Close()
		defer resetOnClose(w) // runs before the Close above
		if err := storm(w, 55*time.Second); err != nil {
			return err
		}
		wires = append(wires, w)
	}
	// All places are taken when a call was rejected. Nothing else is received before the sleeps end.
	first := make(chan error, len(wires))
	for _, w := range wires {
		go func() {
			message, err := w.Recv()
			switch {
			case err != nil:
				err = fmt.Errorf("all of 4,096 run: nothing is left for others: %w", err)
			default:
				err = busy.check(message)
			}
			first <- err
		}()
	}
	if err := <-first; err != nil {
		return err
	}
	return meanwhile()
}

// busy rejects a call of a storm.
var busy = one(answer{id: "1", code: "-31001", data: "*"})

// allRun checks that 256 calls run on a new connection.
func allRun(d *Demo, carrier string) error {
	w, err := d.dial(carrier)
	if err != nil {
		return err
	}
	defer w.Close()
	if err := storm(w, 300*time.Millisecond); err != nil {
		return err
	}
	rejected := 0
	for range 256 {
		message, err := w.Recv()
		if err != nil {
			return fmt.Errorf("the connection ended: %w", err)
		}
		if busy.check(message) == nil {
			rejected++
		}
	}
	if rejected > 0 {
		return fmt.Errorf("%d of 256 calls are rejected", rejected)
	}
	return nil
}

// resetOnClose turns the Close of a TCP connection into a reset.
func resetOnClose(w Wire) {
	if s, ok := w.(*streamWire); ok {
		if tcp, ok := s.s.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
	}
}

// storm starts 256 calls on a connection that sleep.
func storm(w Wire, sleep time.Duration) error {
	for range 256 {
		if err := say(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"sleep","params":[%d]}`, sleep.Milliseconds())); err != nil {
			return err
		}
	}
	return nil
}

func slowReader(d *Demo, carrier string) error {
	w, err := d.dial(carrier)
	if err != nil {
		return err
	}
	defer w.Close()
	payload := `{"jsonrpc":"2.0","id":1,"method":"echo","params":["` + strings.Repeat("x", 1<<20) + `"]}`
	start := time.Now()
	for time.Since(start) < 30*time.Second {
		if err := say(w, payload); err != nil {
			if strings.Contains(err.Error(), "timeout") {
				continue
			}
			// Its connection was closed; others were not.
			return d.exchange(carrier, []byte(good), one(ok("1", data)))
		}
	}
	return errors.New("still open after 30 s")
}

func floodOfNotifications(d *Demo, carrier string) error {
	w, err := d.dial(carrier)
	if err != nil {
		return err
	}
	defer w.Close()
	for range 300 { // 256 run; the waiting ones block all messages behind them
		if err := say(w, `{"jsonrpc":"2.0","id":1,"method":"sleep","params":[60000]}`); err != nil {
			return err
		}
	}
	notification := `{"jsonrpc":"2.0","method":"log_event","params":["` + strings.Repeat("n", 4000) + `"]}`
	for range 3000 {
		if err := say(w, notification); err != nil {
			break // it is closed, as expected
		}
	}
	for {
		message, err := w.Recv()
		closed, isClose := errors.AsType[*CloseError](err)
		timeout, isNet := errors.AsType[net.Error](err)
		switch {
		case err == nil && strings.Contains(string(message), "-31001"):
			continue // an additional request
		case err == nil:
			return fmt.Errorf("it goes on: %s", short(message))
		case isClose && closed.Code != 1013:
			return closed
		case !isClose && carrier == WebSocket:
			return fmt.Errorf("no close frame: %w", err)
		case isNet && timeout.Timeout():
			return errors.New("the connection is still open")
		}
		return nil
	}
}

// overTLS runs the examples of the specification over encrypted transports.
func overTLS(d *Demo, _ string) error {
	dir, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	pool, err := certificate(dir)
	if err != nil {
		return err
	}
	c, err := d.child("demo", "--listen", "https://127.0.0.1:0", "--listen", "tls://127.0.0.1:0", "--tls-cert", filepath.Join(dir, "cert.pem"), "--tls-key", filepath.Join(dir, "key.pem"))
	if err != nil {
		return err
	}
	defer func() { _ = c.process.Process.Kill(); _ = c.Close() }()
	var web, stream string
	for late := time.After(patience); stream == ""; {
		select {
		case <-c.log.more:
		case <-late:
			return fmt.Errorf("it does not say where it listens: %s", c.log.String())
		}
		for _, word := range strings.Fields(c.log.String()) {
			word = strings.Trim(word, "'")
			if rest, found := strings.CutPrefix(word, "https://"); found && strings.HasSuffix(rest, "/rpc") {
				web = strings.TrimSuffix(rest, "/rpc")
			}
			if rest, found := strings.CutPrefix(word, "tls://"); found {
				stream = rest
			}
		}
	}
	config := &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"}
	raw, err := tls.DialWithDialer(&net.Dialer{Timeout: patience}, "tcp", stream, config)
	if err != nil {
		return err
	}
	defer func() { _ = raw.Close() }()
	wire := newStreamWire(raw, false)
	socket, err := upgradeTLS(web, config)
	if err != nil {
		return err
	}
	defer socket.Close()
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols2 := new(http.Protocols)
	protocols2.SetHTTP2(true)
	for _, e := range examples {
		text := []byte(strings.ReplaceAll(e.sends, "\n", " "))
		if err := d.converse(wire, text, e.wants); err != nil {
			return fmt.Errorf("%s over tls: %w", e.name, err)
		}
		if err := d.converse(socket, text, e.wants); err != nil {
			return fmt.Errorf("%s over wss: %w", e.name, err)
		}
		for _, p := range []*http.Protocols{protocols, protocols2} {
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: config.Clone(), Protocols: p, DisableKeepAlives: true}, Timeout: patience}
			r, err := client.Post("https://"+web+"/rpc", "application/json", strings.NewReader(e.sends))
			if err != nil {
				return fmt.Errorf("%s over https: %w", e.name, err)
			}
			body, err := io.ReadAll(r.Body)
			_ = r.Body.Close() // read completely
			if err := errors.Join(err, e.wants.checkReply(&reply{r, body})); err != nil {
				return fmt.Errorf("%s over https (%s): %w", e.name, r.Proto, err)
			}
		}
	}
	if _, err := tls.DialWithDialer(&net.Dialer{Timeout: patience}, "tcp", stream, &tls.Config{RootCAs: pool, ServerName: "127.0.0.1", MaxVersion: tls.VersionTLS11}); err == nil {
		return errors.New("TLS 1.1 was taken")
	}
	return nil
}

func upgradeTLS(web string, config *tls.Config) (*socketWire, error) {
	raw, err := tls.DialWithDialer(&net.Dialer{Timeout: patience}, "tcp", web, config)
	if err != nil {
		return nil, err
	}
	if _, err := io.WriteString(raw, fill(handshake, web)); err != nil {
		return nil, err
	}
	w := &socketWire{s: raw, in: newStreamWire(raw, false).in}
	_ = raw.SetReadDeadline(time.Now().Add(patience))
	r, err := http.ReadResponse(w.in, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Body.Close() }() // a 101 has no body
	if r.StatusCode != http.StatusSwitchingProtocols {
		return nil, fmt.Errorf("wss: %s", r.Status)
	}
	return w, nil
}

// certificate writes a self-signed certificate for 127.0.0.1.
func certificate(dir string) (*x509.CertPool, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	kind := strings.Join([]string{"PRIVATE", "KEY"}, " ")
	return pool, errors.Join(
		os.WriteFile(filepath.Join(dir, "cert.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600),
		os.WriteFile(filepath.Join(dir, "key.pem"), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: secret}), 0o600))
}
