package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// lifeRules returns the rules that start their own programs: the end of stdin, signals, tokens.
func lifeRules() []Rule {
	var rules []Rule
	stdio := func(source, id, what, wants string, f func(c *childStream, w *streamWire) error) {
		rules = append(rules, Rule{ID: "life/" + id, Source: source, Sends: what, Wants: wants, On: []string{Stdio, Header}, check: func(d *Demo, carrier string) error {
			s, err := d.stream(carrier)
			if err != nil {
				return err
			}
			c := s.(*childStream)
			defer func() { _ = c.Close() }()
			return f(c, newStreamWire(c, carrier == Header))
		}})
	}
	const end = "Shutdown, in order"
	stdio(end, "stdin-ends", "the end of stdin", "exit 0, nothing on stdout", func(c *childStream, w *streamWire) error {
		if err := errors.Join(c.CloseWrite(), ended(c, w.in)); err != nil {
			return err
		}
		return c.Close()
	})
	stdio(end, "stdin-ends-after-call", "a call, then the end of stdin", "the response, exit 0", func(c *childStream, w *streamWire) error {
		if err := say(w, good); err != nil {
			return err
		}
		if err := errors.Join(c.CloseWrite(), expect(w, one(ok("1", data))), ended(c, w.in)); err != nil {
			return err
		}
		return c.Close()
	})
	stdio(end, "stdin-ends-while-sleeping", "sleep 700, then the end of stdin", "the response, exit 0", func(c *childStream, w *streamWire) error {
		if err := say(w, `{"jsonrpc":"2.0","id":1,"method":"sleep","params":[700]}`); err != nil {
			return err
		}
		if err := errors.Join(c.CloseWrite(), expect(w, one(ok("1", "700"))), ended(c, w.in)); err != nil {
			return err
		}
		return c.Close()
	})
	stdio(end, "stdin-ends-while-asking", "ask, then the end of stdin", "a response, exit 0, soon", func(c *childStream, w *streamWire) error {
		return within(10*time.Second, func() error {
			if err := say(w, `{"jsonrpc":"2.0","id":1,"method":"ask","params":["x"]}`); err != nil {
				return err
			}
			if _, err := asked(w, "answer"); err != nil {
				return err
			}
			if err := c.CloseWrite(); err != nil {
				return err
			}
			if err := expect(w, one(fault("1", -32603))); err != nil {
				return err
			}
			return c.Close()
		})
	})
	stdio(end, "sigterm", "SIGTERM", "exit 0", func(c *childStream, w *streamWire) error {
		if err := say(w, good); err != nil {
			return err
		}
		if err := expect(w, one(ok("1", data))); err != nil {
			return err
		}
		if err := c.process.Process.Signal(syscall.SIGTERM); err != nil {
			return err
		}
		if err := ended(c, w.in); err != nil {
			return err
		}
		return c.Close()
	})
	stdio("Demo, stdout is data", "stdout-is-data", "calls, notifications, garbage, a panic", "JSON-RPC alone on stdout", func(c *childStream, w *streamWire) error {
		if err := say(w, good, `{"jsonrpc":"2.0","method":"panic"}`, `nonsense`, `{"jsonrpc":"2.0","id":2,"method":"panic"}`); err != nil {
			return err
		}
		if err := c.CloseWrite(); err != nil {
			return err
		}
		for range 3 {
			n, err := hear(w)
			if err != nil {
				return err
			}
			if err := wellFormed(n); err != nil {
				return err
			}
		}
		return ended(c, w.in)
	})

	drain := func(id, on, wants string, f func(d *Demo) error) {
		rules = append(rules, Rule{ID: "life/" + id, Source: end, Sends: "SIGTERM while a call runs", Wants: wants, On: []string{on}, check: func(d *Demo, _ string) error {
			dir, err := os.MkdirTemp("", "conformance-")
			if err != nil {
				return err
			}
			defer func() { _ = os.RemoveAll(dir) }()
			own, err := Start(context.Background(), d.program, dir)
			if err != nil {
				return err
			}
			if err := f(own); err != nil {
				_ = own.process.Process.Kill()
				_ = own.process.Wait()
				return err
			}
			<-own.ended
			return own.process.Wait()
		}})
	}
	for _, carrier := range []string{TCP, Unix, TCPHeader} {
		drain("drain/"+carrier, carrier, "new calls -31004, the running one gets its response, exit 0", func(d *Demo) error {
			w, err := d.dial(carrier)
			if err != nil {
				return err
			}
			defer w.Close()
			if err := d.drained(w); err != nil {
				return err
			}
			if _, err := d.dial(carrier); err == nil {
				return errors.New("a new connection was taken")
			}
			return ended(w.(*streamWire).s, w.(*streamWire).in)
		})
	}
	drain("drain/websocket", WebSocket, "new calls -31004, the running one gets its response, 1001, exit 0", func(d *Demo) error {
		w, err := d.dialWebSocket(d.web)
		if err != nil {
			return err
		}
		defer w.Close()
		if err := d.drained(w); err != nil {
			return err
		}
		return closes(1001).do(w)
	})
	drain("drain/http", HTTP, "the running call gets its response, exit 0", func(d *Demo) error {
		const sleep = `{"jsonrpc":"2.0","id":1,"method":"sleep","params":[800]}`
		w, err := d.dialWeb(d.web)
		if err != nil {
			return err
		}
		defer w.Close()
		// The head of a stream arrives at once, and shows that the call runs.
		if _, err := io.WriteString(w.s, fill(request{header: []string{"Accept: text/event-stream"}, body: sleep}.text(), d.web)); err != nil {
			return err
		}
		_ = w.s.SetReadDeadline(time.Now().Add(patience))
		r, err := http.ReadResponse(w.in, nil)
		if err != nil {
			return err
		}
		defer func() { _ = r.Body.Close() }() // its end is read below, or an error occurred
		if err := d.process.Process.Signal(syscall.SIGTERM); err != nil {
			return err
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		return checkEvents(&reply{r, body}, []string{ok("1", "800").String()})
	})
	rules = append(rules,
		Rule{ID: "life/drain/too-long", Source: end, Sends: "SIGTERM while sleep 60000 runs", Wants: "-31004 after 15 s, exit 1", On: []string{TCP}, slow: true, check: tooLong},
		Rule{ID: "life/second-signal", Source: end, Sends: "SIGTERM twice while sleep 60000 runs", Wants: "the end at once", On: []string{TCP}, check: secondSignal},
		Rule{ID: "life/socket", Source: "Reach, hosts and origins", Sends: "a second demo on a live Unix socket; a new one after kill -9", Wants: "exit 4, and the first continues; a stale socket is replaced", On: []string{Unix}, check: socketTaken})
	for name, c := range sorted(map[string]struct {
		exit int
		args []string
	}{
		"other-machines": {2, []string{"--listen", "tcp://0.0.0.0:0"}}, "other-machines-http": {2, []string{"--listen", "http://0.0.0.0:0"}}, "other-machines-6": {2, []string{"--listen", "http://[::]:0"}}, "unknown-scheme": {2, []string{"--listen", "gopher://127.0.0.1:0"}},
		"no-certificate": {2, []string{"--listen", "tls://127.0.0.1:0"}}, "unknown-flag": {2, []string{"--nope"}}, "bad-framing": {2, []string{"--stdio", "--framing", "x"}}, "no-token-file": {2, []string{"--token-file", "no/such/file"}},
	}) {
		rules = append(rules, Rule{ID: "life/exit/" + name, Source: "Reach, hosts and origins", Sends: "parley demo " + strings.Join(c.args, " "), Wants: fmt.Sprintf("exit %d, nothing on stdout", c.exit), On: []string{Stdio}, check: func(d *Demo, _ string) error {
			return exits(d, c.exit, append([]string{"demo"}, c.args...)...)
		}})
	}
	return append(rules, tokenRules()...)
}

// drained sends SIGTERM while a call of w runs, and expects that new calls are rejected and that
// the running one gets its response. That call ends when the question of its handler is answered,
// which is after the first rejection.
func (d *Demo) drained(w Wire) error {
	if err := say(w, `{"jsonrpc":"2.0","id":1,"method":"ask","params":["tea?"]}`); err != nil {
		return err
	}
	q, err := asked(w, "answer")
	if err != nil {
		return err
	}
	if err := errors.Join(d.process.Process.Signal(syscall.SIGTERM), untilRefused(w)); err != nil {
		return err
	}
	if err := say(w, `{"jsonrpc":"2.0","id":`+string(q.member("id").raw)+`,"result":"tea"}`); err != nil {
		return err
	}
	return expect(w, one(ok("1", `"tea"`)))
}

// untilRefused calls until the server rejects further requests.
func untilRefused(w Wire) error {
	for start := time.Now(); time.Since(start) < patience; {
		if err := say(w, `{"jsonrpc":"2.0","id":2,"method":"get_data"}`); err != nil {
			return err
		}
		n, err := hear(w)
		if err != nil {
			return err
		}
		if ok("2", data).check(n) != nil {
			return answer{id: "2", code: "-31004", data: "*"}.check(n)
		}
	}
	return errors.New("new calls are still taken")
}

// exits runs a command line that must fail at once.
func exits(d *Demo, code int, args ...string) error {
	c, err := d.child(args...)
	if err != nil {
		return err
	}
	_ = c.SetReadDeadline(time.Now().Add(patience))
	out, err := io.ReadAll(c)
	if err != nil {
		return errors.Join(fmt.Errorf("it goes on: %w", err), c.Close())
	}
	if len(out) > 0 {
		return fmt.Errorf("on stdout: %s", short(out))
	}
	var exit *exec.ExitError
	if err := c.Close(); !errors.As(err, &exit) || exit.ExitCode() != code {
		return fmt.Errorf("it ended with %v: %s", err, c.log.String())
	}
	if c.log.String() == "" {
		return errors.New("it does not say why")
	}
	return nil
}

// sleeping runs f with a separate demo in which a long call runs.
func sleeping(d *Demo, f func(d *Demo, w *streamWire) error) error {
	dir, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	own, err := Start(context.Background(), d.program, dir)
	if err != nil {
		return err
	}
	defer func() { _ = own.process.Process.Kill() }()
	w, err := own.dial(TCP)
	if err != nil {
		return err
	}
	defer w.Close()
	if err := errors.Join(say(w, `{"jsonrpc":"2.0","id":1,"method":"sleep","params":[60000]}`), own.probe(w), own.process.Process.Signal(syscall.SIGTERM)); err != nil {
		return err
	}
	return f(own, w.(*streamWire))
}

func tooLong(d *Demo, _ string) error {
	return sleeping(d, func(d *Demo, w *streamWire) error {
		start := time.Now()
		message, err := w.recv(60 * time.Second)
		if err != nil {
			return err
		}
		if took := time.Since(start); took < 14*time.Second {
			return fmt.Errorf("it took %v", took)
		}
		if err := one(answer{id: "1", code: "-31004", data: "*"}).check(message); err != nil {
			return err
		}
		if err := ended(w.s, w.in); err != nil {
			return err
		}
		<-d.ended
		var exit *exec.ExitError
		if err := d.process.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
			return fmt.Errorf("it ended with %v", err)
		}
		return nil
	})
}

func secondSignal(d *Demo, _ string) error {
	return sleeping(d, func(d *Demo, _ *streamWire) error {
		// Two signals at once may be merged; the first has taken effect when no connections are
		// accepted.
		for {
			w, err := d.dial(TCP)
			if err != nil {
				break
			}
			w.Close()
		}
		if err := d.process.Process.Signal(syscall.SIGTERM); err != nil {
			return err
		}
		return within(10*time.Second, func() error { // without the second signal it would take 15
			<-d.ended
			_ = d.process.Wait() // any exit status
			return nil
		})
	})
}

func socketTaken(d *Demo, _ string) error {
	if err := exits(d, 4, "demo", "--listen", "unix:"+d.unix); err != nil {
		return fmt.Errorf("the second demo: %w", err)
	}
	if err := d.exchange(Unix, []byte(good), one(ok("1", data))); err != nil {
		return fmt.Errorf("the first demo: %w", err)
	}
	dir, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	killed, err := Start(context.Background(), d.program, dir)
	if err != nil {
		return err
	}
	_ = killed.process.Process.Kill()
	<-killed.ended
	_ = killed.process.Wait()
	if _, err := os.Stat(killed.unix); err != nil {
		return fmt.Errorf("no stale socket: %w", err)
	}
	next, err := Start(context.Background(), d.program, dir)
	if err != nil {
		return fmt.Errorf("over a stale socket: %w", err)
	}
	return errors.Join(next.exchange(Unix, []byte(good), one(ok("1", data))), next.Stop())
}

// token has at least the minimum length of a token.
const token = "0123456789abcdef0123456789abcdef0123456789abcdef"

// tokenRules returns the rules about a demo with --token-file.
func tokenRules() []Rule {
	const source = answers4 + "no credentials or bad token"
	withToken := func(id, on, sends, wants string, f func(d *Demo) error) Rule {
		return Rule{ID: "token/" + id, Source: source, Sends: sends, Wants: wants, On: []string{on}, check: func(d *Demo, _ string) error {
			dir, err := os.MkdirTemp("", "conformance-")
			if err != nil {
				return err
			}
			defer func() { _ = os.RemoveAll(dir) }()
			file := filepath.Join(dir, "token")
			if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
				return err
			}
			own, err := Start(context.Background(), d.program, dir, "--token-file", file)
			if err != nil {
				return err
			}
			err = f(own)
			return errors.Join(err, own.Stop())
		}}
	}
	var rules []Rule
	yes := `{"jsonrpc":"2.0","id":1,"method":"get_data"}`
	rules = append(rules, withToken("http", HTTP, "POST without, with a wrong, with the right token", "401, 401 invalid_token, 200", func(d *Demo) error {
		bearer := func(value string) request { return request{body: yes, header: []string{"Authorization: " + value}} }
		none := response{status: 401, header: map[string]string{"Www-Authenticate": "Bearer"}}
		granted := served
		granted.after = "" // the next request would need the token too
		wrong := none.with("Www-Authenticate", `error="invalid_token"`)
		for _, c := range []struct {
			q request
			w response
		}{
			{request{body: yes}, none}, {bearer("Bearer " + token), granted}, {bearer("bearer " + token), granted}, {bearer("Bearer " + token + "x"), wrong}, {bearer("Bearer " + token[1:]), wrong}, {bearer("Basic " + token), wrong}, {bearer("Bearer"), wrong},
			{request{line: "GET /healthz HTTP/1.1"}, is(200)}, {request{line: "POST /rpc?access_token=" + token + " HTTP/1.1", body: yes}, none}, {request{line: "POST /nope HTTP/1.1", body: yes}, is(401)}, {request{line: "DELETE /rpc HTTP/1.1"}, is(401)}, {request{line: "POST /rpc HTTP/1.1", body: yes, header: []string{"Authorization: Bearer " + token, "Host: evil.example"}}, is(403)},
			{request{line: "GET /rpc HTTP/1.1", header: []string{"Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13"}}, none},
			{request{line: "GET /rpc HTTP/1.1", header: []string{"Authorization: Bearer " + token, "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13"}}, is(101)},
		} {
			if err := d.rawHTTP(c.q.text(), []response{c.w}, patience); err != nil {
				return fmt.Errorf("%q: %w", c.q.text(), err)
			}
		}
		w, err := d.dialWeb(d.web)
		if err != nil {
			return err
		}
		defer w.Close()
		if _, err := io.WriteString(w.s, fill(request{body: yes}.text(), d.web)); err != nil {
			return err
		}
		r, err := w.read(http.MethodPost, patience)
		if err != nil {
			return err
		}
		if strings.Contains(r.Header.Get("Www-Authenticate"), "error") {
			return errors.New("an error where no token was shown (RFC 6750, section 3.1)")
		}
		return nil
	}))
	for _, carrier := range []string{TCP, TCPHeader} {
		refused := one(answer{id: "1", code: "-31005", data: "*"})
		rules = append(rules, withToken("stream/"+carrier, carrier, "three calls without a token", "-31005 each, then closed", func(d *Demo) error {
			w, err := d.dial(carrier)
			if err != nil {
				return err
			}
			defer w.Close()
			if err := say(w, yes, yes, yes); err != nil {
				return err
			}
			for range 3 {
				if err := expect(w, refused); err != nil {
					return err
				}
			}
			return ended(w.(*streamWire).s, w.(*streamWire).in)
		}), withToken("stream-good/"+carrier, carrier, "rpc.authenticate, then a call", "true, then the result", func(d *Demo) error {
			w, err := d.dial(carrier)
			if err != nil {
				return err
			}
			defer w.Close()
			if err := say(w, yes, `{"jsonrpc":"2.0","id":2,"method":"rpc.authenticate","params":{"token":"`+token+`"}}`, yes); err != nil {
				return err
			}
			return errors.Join(expect(w, refused), expect(w, one(ok("2", "true"))), expect(w, one(ok("1", data))))
		}))
	}
	rules = append(rules, withToken("unix", Unix, "a call on the Unix socket without a token", "the result: the permissions of its file decide", func(d *Demo) error {
		info, err := os.Stat(d.unix)
		if err != nil {
			return err
		}
		if info.Mode().Perm() != 0o600 {
			return fmt.Errorf("the socket's mode is %v", info.Mode())
		}
		return d.exchange(Unix, []byte(yes), one(ok("1", data)))
	}))
	return rules
}
