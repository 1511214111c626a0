package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// lifeRules start programs of their own: the end of stdin, signals, tokens.
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
	const end = "reliability, section 3.1"
	stdio(end, "stdin-ends", "the end of stdin", "exit 0, nothing on stdout", func(c *childStream, w *streamWire) error {
		if err := errors.Join(c.CloseWrite(), ended(c, w.in)); err != nil {
			return err
		}
		return c.Close()
	})
	stdio(end, "stdin-ends-after-call", "a call, then the end of stdin", "the answer, exit 0", func(c *childStream, w *streamWire) error {
		if err := say(w, good); err != nil {
			return err
		}
		if err := errors.Join(c.CloseWrite(), expect(w, one(ok("1", data))), ended(c, w.in)); err != nil {
			return err
		}
		return c.Close()
	})
	stdio(end, "stdin-ends-while-sleeping", "sleep 700, then the end of stdin", "the answer, exit 0", func(c *childStream, w *streamWire) error {
		if err := say(w, `{"jsonrpc":"2.0","id":1,"method":"sleep","params":[700]}`); err != nil {
			return err
		}
		if err := errors.Join(c.CloseWrite(), expect(w, one(ok("1", "700"))), ended(c, w.in)); err != nil {
			return err
		}
		return c.Close()
	})
	stdio(end, "stdin-ends-while-asking", "ask, then the end of stdin", "an answer, exit 0, soon", func(c *childStream, w *streamWire) error {
		return within(5*time.Second, func() error {
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
	stdio("Design, section 6", "stdout-is-data", "calls, notifications, garbage, a panic", "JSON-RPC alone on stdout", func(c *childStream, w *streamWire) error {
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
		rules = append(rules, Rule{ID: "life/" + id, Source: end, Sends: "SIGTERM while sleep 800 runs", Wants: wants, On: []string{on}, check: func(d *Demo, _ string) error {
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
	const sleep = `{"jsonrpc":"2.0","id":1,"method":"sleep","params":[800]}`
	busy := answer{id: "2", code: "-31004", data: "*"}
	for _, carrier := range []string{TCP, Unix, TCPHeader} {
		drain("drain/"+carrier, carrier, "new calls -31004, the running one is answered, exit 0", func(d *Demo) error {
			w, err := d.dial(carrier)
			if err != nil {
				return err
			}
			defer w.Close()
			if err := errors.Join(say(w, sleep), d.probe(w), d.process.Process.Signal(syscall.SIGTERM)); err != nil {
				return err
			}
			time.Sleep(250 * time.Millisecond) // a signal has no answer to wait for
			if err := say(w, `{"jsonrpc":"2.0","id":2,"method":"get_data"}`); err != nil {
				return err
			}
			if err := errors.Join(expect(w, one(busy)), expect(w, one(ok("1", "800")))); err != nil {
				return err
			}
			if _, err := d.dial(carrier); err == nil {
				return errors.New("a new connection was taken")
			}
			return ended(w.(*streamWire).s, w.(*streamWire).in)
		})
	}
	drain("drain/websocket", WebSocket, "new calls -31004, the running one is answered, 1001, exit 0", func(d *Demo) error {
		w, err := d.dialWebSocket(d.web)
		if err != nil {
			return err
		}
		defer w.Close()
		if err := errors.Join(say(w, sleep), d.probe(w), d.process.Process.Signal(syscall.SIGTERM)); err != nil {
			return err
		}
		time.Sleep(250 * time.Millisecond) // a signal has no answer to wait for
		if err := say(w, `{"jsonrpc":"2.0","id":2,"method":"get_data"}`); err != nil {
			return err
		}
		if err := errors.Join(expect(w, one(busy)), expect(w, one(ok("1", "800")))); err != nil {
			return err
		}
		return closes(1001).do(w)
	})
	drain("drain/http", HTTP, "the running call is answered, exit 0", func(d *Demo) error {
		w, err := d.dialWeb(d.web)
		if err != nil {
			return err
		}
		defer w.Close()
		if _, err := io.WriteString(w.s, fill(request{body: sleep}.text(), d.web)); err != nil {
			return err
		}
		if err := d.post(HTTP, []byte(good), one(ok("1", data))); err != nil {
			return err
		}
		if err := d.process.Process.Signal(syscall.SIGTERM); err != nil {
			return err
		}
		r, err := w.read(http.MethodPost, patience)
		if err != nil {
			return err
		}
		return answered(ok("1", "800")).check(r)
	})
	return append(rules, tokenRules()...)
}

// token is long enough to be one.
const token = "0123456789abcdef0123456789abcdef0123456789abcdef"

// tokenRules are about a demo with --token-file.
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
	rules = append(rules, withToken("unix", Unix, "a call on the Unix socket without a token", "the result: its file is the door", func(d *Demo) error {
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
