package conformance

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

const rfc6455 = "RFC 6455, section "

// handshakeRules returns the rules about the opening handshake.
func handshakeRules() []Rule {
	var rules []Rule
	add := func(section, id string, wants response, q request) {
		r := web(rfc6455+section, id, wants, q)
		r.ID, r.On = "websocket/handshake/"+id, []string{WebSocket}
		rules = append(rules, r)
	}
	upgrade := func(change ...string) request {
		header := map[string]string{"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version": "13"}
		q := request{line: "GET /rpc HTTP/1.1"}
		for i := 0; i+1 < len(change); i += 2 {
			if change[i+1] == "-" {
				delete(header, change[i])
			} else {
				header[change[i]] = change[i+1]
			}
		}
		for name, value := range sorted(header) {
			q.header = append(q.header, name+": "+value)
		}
		return q
	}
	yes := response{status: 101, header: map[string]string{"Upgrade": "websocket", "Connection": "Upgrade", "Sec-Websocket-Accept": "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", "Sec-Websocket-Extensions": "", "Sec-Websocket-Protocol": "", "Content-Length": ""}}
	no := response{status: 400, or: []int{426}}
	add("1.3", "example", yes, upgrade())
	add("4.2.1", "upgrade-upper", yes, upgrade("Upgrade", "WEBSOCKET"))
	add("4.2.1", "upgrade-title", yes, upgrade("Upgrade", "WebSocket"))
	add("4.2.1", "upgrade-list", yes, upgrade("Upgrade", "foo, websocket"))
	add("4.2.1", "connection-lower", yes, upgrade("Connection", "upgrade"))
	add("4.2.1", "connection-upper", yes, upgrade("Connection", "UPGRADE"))
	add("4.2.1", "connection-list", yes, upgrade("Connection", "keep-alive, Upgrade"))
	add("4.2.1", "connection-list-tight", yes, upgrade("Connection", "keep-alive,upgrade,foo"))
	add("4.2.1", "unknown-header", yes, upgrade("X-Other", "1"))
	add("4.2.1", "user-agent", yes, upgrade("User-Agent", "x"))
	add("4.2.1", "root", yes, func() request { q := upgrade(); q.line = "GET / HTTP/1.1"; return q }())
	add("4.2.1", "query", yes, func() request { q := upgrade(); q.line = "GET /rpc?a=b HTTP/1.1"; return q }())
	add("4.2.1", "absolute", yes, func() request { q := upgrade(); q.line = "GET http://{host}/rpc HTTP/1.1"; return q }())
	add("10.2", "own-origin", yes, upgrade("Origin", "http://{host}"))
	add("10.2", "localhost-origin", yes, upgrade("Origin", "http://localhost:{port}"))
	add("9.1", "extension-not-agreed", yes, upgrade("Sec-WebSocket-Extensions", "permessage-deflate; client_max_window_bits"))
	add("9.1", "extension-unknown", yes, upgrade("Sec-WebSocket-Extensions", "foo, bar; baz=2"))
	add("4.2.2", "protocol-not-agreed", yes, upgrade("Sec-WebSocket-Protocol", "chat, superchat"))
	add("4.2.2", "protocol-jsonrpc", response{status: 101}, upgrade("Sec-WebSocket-Protocol", "jsonrpc"))
	for name, key := range sorted(map[string][2]string{"zeros": {"AAAAAAAAAAAAAAAAAAAAAA==", "ICX+Yqv66kxgM0FcWaLWlFLwTAI="}, "other": {"x3JJHMbDL1EzLkh9GBhXDw==", "HSmrc0sMlYUkAGmm5OPpG2HaGWk="}}) {
		add("4.2.2", "accept/"+name, yes.with("Sec-Websocket-Accept", key[1]), upgrade("Sec-WebSocket-Key", key[0]))
	}
	add("4.2.1", "no-key", no, upgrade("Sec-WebSocket-Key", "-"))
	for name, key := range sorted(map[string]string{"empty": "", "short": "AAAA", "fifteen-bytes": "AAAAAAAAAAAAAAAAAAAA", "seventeen-bytes": "AAAAAAAAAAAAAAAAAAAAAAA=", "no-padding": "dGhlIHNhbXBsZSBub25jZQ", "one-padding": "dGhlIHNhbXBsZSBub25jZQ=", "no-base64": "!!!!!!!!!!!!!!!!!!!!!!==", "url-base64": "dGhlIHNhbXBsZSBub25j_-==", "words": "hello world", "list": "dGhlIHNhbXBsZSBub25jZQ==, dGhlIHNhbXBsZSBub25jZQ==", "spaces-inside": "dGhlIHNhb XBsZSBub25jZQ=="}) {
		add("4.2.1", "key/"+name, no, upgrade("Sec-WebSocket-Key", key))
	}
	add("4.2.1", "key/twice", no, func() request {
		q := upgrade()
		q.header = append(q.header, "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")
		return q
	}())
	version := response{status: 426, header: map[string]string{"Sec-Websocket-Version": "13", "Upgrade": "websocket"}}
	for _, v := range []string{"0", "7", "8", "12", "14", "130", "1", "x", "-13", "13.0", "013"} {
		add("4.4", "version/"+v, version, upgrade("Sec-WebSocket-Version", v))
	}
	add("4.2.1", "version/none", response{status: 426, or: []int{400}}, upgrade("Sec-WebSocket-Version", "-"))
	add("4.2.1", "connection/none", response{status: 400, or: []int{405, 426}}, upgrade("Connection", "-"))
	add("4.2.1", "connection/other", response{status: 400, or: []int{405, 426}}, upgrade("Connection", "keep-alive"))
	add("4.2.1", "connection/prefix", response{status: 400, or: []int{405, 426}}, upgrade("Connection", "upgrades"))
	add("4.2.1", "upgrade/none", response{status: 405, or: []int{400, 426}}, upgrade("Upgrade", "-"))
	add("4.2.1", "upgrade/other", response{status: 405, or: []int{400, 426}}, upgrade("Upgrade", "h2c"))
	add("4.2.1", "upgrade/prefix", response{status: 405, or: []int{400, 426}}, upgrade("Upgrade", "websockets"))
	for _, m := range []string{"POST", "PUT", "HEAD", "OPTIONS", "DELETE"} {
		add("4.2.1", "method/"+m, response{status: 405, or: []int{400}}, func() request { q := upgrade(); q.line = m + " /rpc HTTP/1.1"; return q }())
	}
	add("4.2.1", "http-1.0", response{status: 400, or: []int{405, 426, 505}}, func() request { q := upgrade(); q.line = "GET /rpc HTTP/1.0"; return q }())
	add("4.2.1", "unknown-path", is(404), func() request { q := upgrade(); q.line = "GET /nope HTTP/1.1"; return q }())
	add("4.2.1", "health", response{status: 200, or: []int{400, 404, 426}}, func() request { q := upgrade(); q.line = "GET /healthz HTTP/1.1"; return q }())
	for name, v := range sorted(map[string]string{"evil": "https://evil.example", "null": "null", "port": "http://127.0.0.1:1", "prefix": "http://{host}.evil.example", "empty": ""}) {
		add("10.2", "origin/"+name, is(403), upgrade("Origin", v))
	}
	add("4.2.1", "host-missing", is(400), func() request { q := upgrade(); q.bare = true; return q }())
	add("10.2", "host-evil", is(403), upgrade("Host", "evil.example"))
	return rules
}

// A step is one action or expectation on a WebSocket.
type step struct {
	what string
	do   func(w *socketWire) error
}

func sends(frames ...Frame) step {
	var all []byte
	var what []string
	for _, f := range frames {
		all = append(all, f.bytes()...)
		fin := ""
		if !f.Fin {
			fin = " not fin"
		}
		if f.RSV != 0 {
			fin += fmt.Sprintf(" rsv %03b", f.RSV)
		}
		what = append(what, fmt.Sprintf("[op %d%s %s]", f.Op, fin, short(f.Payload)))
	}
	return step{strings.Join(what, " "), func(w *socketWire) error { return w.raw(all) }}
}

func sendsRaw(what string, b []byte) step {
	return step{what, func(w *socketWire) error { return w.raw(b) }}
}

// slowly sends frames byte by byte.
func slowly(frames ...Frame) step {
	s := sends(frames...)
	return step{s.what + " byte by byte", func(w *socketWire) error {
		for _, f := range frames {
			for _, c := range f.bytes() {
				if err := w.raw([]byte{c}); err != nil {
					return err
				}
			}
		}
		return nil
	}}
}

func gets(a answer) step {
	return step{a.String(), func(w *socketWire) error { return expect(w, one(a)) }}
}

// getsPong expects a pong as the very next frame.
func getsPong(payload string) step {
	return step{"pong " + shorten([]byte(payload), 20), func(w *socketWire) error {
		f, err := w.frame()
		if err != nil {
			return err
		}
		if f.Op != opPong || string(f.Payload) != payload {
			return fmt.Errorf("want pong %q, got opcode %d %s", payload, f.Op, short(f.Payload))
		}
		return nil
	}}
}

// closes expects a close frame with one of the codes, and then the end of the connection.
func closes(codes ...int) step {
	return step{fmt.Sprintf("close %v, then the end", codes), func(w *socketWire) error {
		_, err := w.Recv()
		closed, ok := errors.AsType[*CloseError](err)
		if !ok {
			return fmt.Errorf("want a close frame, got %v", err)
		}
		for _, code := range codes {
			if closed.Code == code {
				if closed.Code != 1005 {
					reply := binary.BigEndian.AppendUint16(nil, uint16(code))
					// The connection may be closed already.
					_ = w.raw(Frame{Fin: true, Op: opClose, Payload: reply}.bytes())
				}
				return ended(w.s, w.in)
			}
		}
		return fmt.Errorf("want close %v, got %w", codes, closed)
	}}
}

var staysOpen = step{"stays open", nil}

func closeFrame(code int, reason string) Frame {
	return Frame{Fin: true, Op: opClose, Payload: append(binary.BigEndian.AppendUint16(nil, uint16(code)), reason...)}
}

// frameRules returns the rules about frames on an open connection.
func frameRules() []Rule {
	var rules []Rule
	add := func(source, id string, steps ...step) {
		what := make([]string, len(steps))
		for i, s := range steps {
			what[i] = s.what
		}
		rules = append(rules, Rule{ID: "websocket/" + id, Source: source, Sends: what[0], Wants: strings.Join(what[1:], "; "), On: []string{WebSocket},
			check: func(d *Demo, _ string) error {
				w, err := d.dialWebSocket(d.web)
				if err != nil {
					return err
				}
				defer w.Close()
				for i, s := range steps {
					if s.do == nil {
						err = d.probe(w)
					} else {
						err = s.do(w)
					}
					if err != nil {
						return fmt.Errorf("step %d: %w", i+1, err)
					}
				}
				return nil
			}})
	}
	yes := gets(ok("1", data))
	part := func(fin bool, op byte, payload string) Frame {
		return Frame{Fin: fin, Op: op, Payload: []byte(payload)}
	}
	pad := func(n int) string { // a request of n bytes
		return `{"jsonrpc":"2.0","id":1,"method":"get_data"` + strings.Repeat(" ", n-len(good)) + "}"
	}

	// Lengths.
	for _, n := range []int{124, 125, 126, 127, 128, 255, 256, 65534, 65535, 65536, 65537, 1 << 20} {
		add(rfc6455+"5.2", fmt.Sprintf("length/%d", n), sends(text(pad(n))), yes, staysOpen)
	}
	// echoed: the server's own lengths, checked by readFrame
	for _, n := range []int{125, 126, 65535, 65536, 200000} {
		params := `["` + strings.Repeat("x", n) + `"]`
		add(rfc6455+"5.2", fmt.Sprintf("length/answer-%d", n), sends(text(`{"jsonrpc":"2.0","id":1,"method":"echo","params":`+params+`}`)), gets(ok("1", params)), staysOpen)
	}
	add(rfc6455+"5.2", "length/not-shortest-16", sendsRaw("44 bytes, length in 16 bits", text(good).encode(true, 2)), closes(1002))
	add(rfc6455+"5.2", "length/not-shortest-64", sendsRaw("44 bytes, length in 64 bits", text(good).encode(true, 8)), closes(1002))
	add(rfc6455+"5.2", "length/not-shortest-64-of-16", sendsRaw("1000 bytes, length in 64 bits", text(pad(1000)).encode(true, 8)), closes(1002))
	add(rfc6455+"5.2", "length/top-bit", sendsRaw("length with the top bit set", append([]byte{0x81, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 1}, mask[:]...)), closes(1002))
	add(answers4+"too large, WebSocket", "length/huge", sendsRaw("length 2^62", append([]byte{0x81, 0xff, 0x40, 0, 0, 0, 0, 0, 0, 0}, mask[:]...)), closes(1009))
	add(answers4+"too large, WebSocket", "length/4MiB-and-1", sendsRaw("a header of 4 MiB + 1", append([]byte{0x81, 0xff, 0, 0, 0, 0, 0, 0x40, 0, 1}, mask[:]...)), closes(1009))
	add(answers4+"too large, WebSocket", "length/fragments-past-4MiB", sends(part(false, opText, strings.Repeat(" ", 3<<20)), part(true, opContinuation, strings.Repeat(" ", 1<<20+1))), closes(1009))
	add(rfc6455+"5.2", "length/zero", sends(text("")), staysOpen)
	add(answers4+"empty line", "length/zero-then-good", sends(text(""), text(""), text(good)), yes, staysOpen)

	// Masks, reserved bits, opcodes.
	add(rfc6455+"5.1", "mask/none", sendsRaw("an unmasked text frame", text(good).encode(false, 0)), closes(1002))
	add(rfc6455+"5.1", "mask/none-ping", sendsRaw("an unmasked ping", Frame{Fin: true, Op: opPing}.encode(false, 0)), closes(1002))
	add(rfc6455+"5.1", "mask/none-close", sendsRaw("an unmasked close", closeFrame(1000, "").encode(false, 0)), closes(1002))
	add(rfc6455+"5.1", "mask/none-empty", sendsRaw("an unmasked empty text", text("").encode(false, 0)), closes(1002))
	add(rfc6455+"5.3", "mask/zero-key", sendsRaw("key 00000000", append([]byte{0x81, 0x80 | byte(len(good)), 0, 0, 0, 0}, good...)), yes, staysOpen)
	for rsv := byte(1); rsv < 8; rsv++ {
		add(rfc6455+"5.2", fmt.Sprintf("rsv/%03b", rsv), sends(Frame{Fin: true, RSV: rsv, Op: opText, Payload: []byte(good)}), closes(1002))
	}
	add(rfc6455+"5.2", "rsv/ping", sends(Frame{Fin: true, RSV: 4, Op: opPing}), closes(1002))
	add(rfc6455+"5.2", "rsv/close", sends(Frame{Fin: true, RSV: 1, Op: opClose}), closes(1002))
	add(rfc6455+"5.2", "rsv/continuation", sends(part(false, opText, good[:5]), Frame{Fin: true, RSV: 2, Op: opContinuation, Payload: []byte(good[5:])}), closes(1002))
	for _, op := range []byte{3, 4, 5, 6, 7, 11, 12, 13, 14, 15} {
		add(rfc6455+"5.2", fmt.Sprintf("opcode/%d", op), sends(part(true, op, "")), closes(1002))
		add(rfc6455+"5.2", fmt.Sprintf("opcode/%d/payload", op), sends(part(true, op, "x")), closes(1002))
		add(rfc6455+"5.2", fmt.Sprintf("opcode/%d/after-good", op), sends(text(good), part(true, op, "x")), yes, closes(1002))
		add(rfc6455+"5.2", fmt.Sprintf("opcode/%d/in-message", op), sends(part(false, opText, good[:5]), part(true, op, "x")), closes(1002))
	}
	add(answers4+"WebSocket binary", "binary", sends(part(true, opBinary, good)), closes(1003))
	add(answers4+"WebSocket binary", "binary/empty", sends(part(true, opBinary, "")), closes(1003))
	add(answers4+"WebSocket binary", "binary/fragment", sends(part(false, opBinary, good[:9]), part(true, opContinuation, good[9:])), closes(1003))
	add(answers4+"WebSocket binary", "binary/after-good", sends(text(good), part(true, opBinary, good)), yes, closes(1003))

	// Fragments.
	add(rfc6455+"5.4", "fragments/two", sends(part(false, opText, good[:20]), part(true, opContinuation, good[20:])), yes, staysOpen)
	add(rfc6455+"5.4", "fragments/empty-first", sends(part(false, opText, ""), part(true, opContinuation, good)), yes, staysOpen)
	add(rfc6455+"5.4", "fragments/empty-last", sends(part(false, opText, good), part(true, opContinuation, "")), yes, staysOpen)
	add(rfc6455+"5.4", "fragments/empty-middle", sends(part(false, opText, good[:20]), part(false, opContinuation, ""), part(true, opContinuation, good[20:])), yes, staysOpen)
	add(rfc6455+"5.4", "fragments/all-empty", sends(part(false, opText, ""), part(false, opContinuation, ""), part(true, opContinuation, "")), staysOpen)
	bytewise := []Frame{part(false, opText, good[:1])}
	for i := 1; i < len(good)-1; i++ {
		bytewise = append(bytewise, part(false, opContinuation, good[i:i+1]))
	}
	bytewise = append(bytewise, part(true, opContinuation, good[len(good)-1:]))
	add(rfc6455+"5.4", "fragments/bytes", sends(bytewise...), yes, staysOpen)
	add(rfc6455+"5.4", "fragments/bytes-slowly", slowly(bytewise...), yes, staysOpen)
	fragments := func(n int) []Frame {
		all := make([]Frame, n)
		for i := range all {
			all[i] = part(i == n-1, opContinuation, "")
		}
		all[0] = part(false, opText, good)
		return all
	}
	add("Limits, one conversation", "fragments/1024", sends(fragments(1024)...), yes, staysOpen)
	add("Limits, one conversation", "fragments/1025", sends(fragments(1025)...), closes(1009))
	add(rfc6455+"5.4", "fragments/ping-between", sends(part(false, opText, good[:20]), part(true, opPing, "in between"), part(true, opContinuation, good[20:])), getsPong("in between"), yes, staysOpen)
	add(rfc6455+"5.4", "fragments/pong-between", sends(part(false, opText, good[:20]), part(true, opPong, "x"), part(true, opContinuation, good[20:])), yes, staysOpen)
	add(rfc6455+"5.4", "fragments/pings-between", sends(part(false, opText, good[:20]), part(true, opPing, "1"), part(true, opPing, "2"), part(true, opContinuation, good[20:])), getsPong("1"), getsPong("2"), yes, staysOpen)
	add(rfc6455+"5.4", "fragments/close-between", sends(part(false, opText, good[:20]), closeFrame(1000, "")), closes(1000))
	add(rfc6455+"5.4", "fragments/new-text", sends(part(false, opText, good[:20]), text(good)), closes(1002))
	add(rfc6455+"5.4", "fragments/new-fragment", sends(part(false, opText, good[:20]), part(false, opText, good[20:])), closes(1002))
	add(rfc6455+"5.4", "fragments/new-binary", sends(part(false, opText, good[:20]), part(true, opBinary, "")), closes(1002, 1003))
	add(rfc6455+"5.4", "fragments/continuation-first", sends(part(true, opContinuation, good)), closes(1002))
	add(rfc6455+"5.4", "fragments/continuation-not-fin-first", sends(part(false, opContinuation, good)), closes(1002))
	add(rfc6455+"5.4", "fragments/continuation-empty-first", sends(part(true, opContinuation, "")), closes(1002))
	add(rfc6455+"5.4", "fragments/continuation-after-whole", sends(text(good), part(true, opContinuation, good)), yes, closes(1002))
	add(rfc6455+"5.4", "fragments/continuation-after-fragments", sends(part(false, opText, good[:5]), part(true, opContinuation, good[5:]), part(true, opContinuation, "")), yes, closes(1002))
	add(rfc6455+"5.4", "fragments/two-messages", sends(part(false, opText, good[:20]), part(true, opContinuation, good[20:]), part(false, opText, good[:9]), part(true, opContinuation, good[9:])), yes, yes, staysOpen)

	// Control frames.
	for _, payload := range []string{"", "x", "hello", "\x00\xff\xfe", strings.Repeat("p", 124), strings.Repeat("p", 125)} {
		add(rfc6455+"5.5.2", fmt.Sprintf("ping/%d-bytes-%x", len(payload), payload[:min(3, len(payload))]), sends(part(true, opPing, payload)), getsPong(payload), staysOpen)
	}
	add(rfc6455+"5.5", "ping/126-bytes", sends(part(true, opPing, strings.Repeat("p", 126))), closes(1002))
	add(rfc6455+"5.5", "ping/not-fin", sends(part(false, opPing, "x")), closes(1002))
	add(rfc6455+"5.5", "pong/126-bytes", sends(part(true, opPong, strings.Repeat("p", 126))), closes(1002))
	add(rfc6455+"5.5", "pong/not-fin", sends(part(false, opPong, "")), closes(1002))
	add(rfc6455+"5.5", "ping/continued", sends(part(false, opPing, "x"), part(true, opContinuation, "y")), closes(1002))
	add(rfc6455+"5.5.3", "pong/unasked", sends(part(true, opPong, "")), staysOpen)
	add(rfc6455+"5.5.3", "pong/unasked-payload", sends(part(true, opPong, "x"), part(true, opPong, strings.Repeat("y", 125))), staysOpen)
	add(rfc6455+"5.5.2", "ping/two", sends(part(true, opPing, "1"), part(true, opPing, "2")), getsPong("1"), getsPong("2"), staysOpen)
	add(rfc6455+"5.5.2", "ping/slowly", slowly(part(true, opPing, "slow")), getsPong("slow"), staysOpen)
	add("Times, timers", "ping/flood", sends(many2(part(true, opPing, ""), 200)...), closes(1008))

	// Closing.
	for _, code := range []int{1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999} {
		add(rfc6455+"7.4", fmt.Sprintf("close/%d", code), sends(closeFrame(code, "")), closes(code, 1000))
		add(rfc6455+"5.5.1", fmt.Sprintf("close/%d/reason", code), sends(closeFrame(code, "because é😀")), closes(code, 1000))
	}
	for _, code := range []int{1012, 1013, 1014} { // registered after RFC 6455
		add(rfc6455+"7.4.2", fmt.Sprintf("close/%d", code), sends(closeFrame(code, "")), closes(code, 1000))
	}
	for _, code := range []int{0, 1, 999, 1004, 1005, 1006, 1015, 1016, 1100, 1999, 2000, 2999, 5000, 65535} {
		add(rfc6455+"7.4.1", fmt.Sprintf("close/bad/%d", code), sends(closeFrame(code, "")), closes(1002))
	}
	add(rfc6455+"5.5.1", "close/empty", sends(part(true, opClose, "")), closes(1000, 1005))
	add(rfc6455+"5.5.1", "close/one-byte", sends(part(true, opClose, "\x03")), closes(1002))
	add(rfc6455+"5.5.1", "close/reason-123", sends(closeFrame(1000, strings.Repeat("r", 123))), closes(1000))
	add(rfc6455+"5.5", "close/reason-124", sends(closeFrame(1000, strings.Repeat("r", 124))), closes(1002))
	add(rfc6455+"5.5", "close/not-fin", sends(part(false, opClose, "\x03\xe8")), closes(1002))
	add(rfc6455+"8.1", "close/reason-not-utf8", sends(closeFrame(1000, "\xff")), closes(1007, 1002))
	add(rfc6455+"8.1", "close/reason-cut", sends(closeFrame(1000, "a\xc3")), closes(1007, 1002))
	add(rfc6455+"5.5.1", "close/nothing-after", sends(closeFrame(1000, ""), text(good)), closes(1000))
	add(rfc6455+"5.5.1", "close/ping-after", sends(closeFrame(1000, ""), part(true, opPing, "x")), closes(1000))
	add(rfc6455+"5.5.1", "close/twice", sends(closeFrame(1000, ""), closeFrame(1000, "")), closes(1000))
	add(rfc6455+"5.5.1", "close/after-answer", sends(text(good)), yes, sends(closeFrame(1000, "")), closes(1000))
	add(rfc6455+"5.5.2", "close/ping-before", sends(part(true, opPing, "x"), closeFrame(1000, "")), getsPong("x"), closes(1000))
	add(rfc6455+"7.1.1", "close/slowly", slowly(closeFrame(1000, "bye")), closes(1000))

	// UTF-8.
	const utf8Text = answers4 + "bad UTF-8 text"
	cut := func(name, first, second string) {
		add(rfc6455+"5.6", "utf8/split/"+name, sends(part(false, opText, `{"jsonrpc":"2.0","id":1,"method":"echo","params":["`+first), part(true, opContinuation, second+`"]}`)), gets(ok("1", `["`+first+second+`"]`)), staysOpen)
	}
	cut("two", "\xc3", "\xa9")
	cut("three-1", "\xe2", "\x82\xac")
	cut("three-2", "\xe2\x82", "\xac")
	cut("four-1", "\xf0", "\x9f\x98\x80")
	cut("four-2", "\xf0\x9f", "\x98\x80")
	cut("four-3", "\xf0\x9f\x98", "\x80")
	for name, bad := range sorted(map[string]string{"ff": "\xff", "overlong": "\xc0\x80", "surrogate": "\xed\xa0\x80", "past-unicode": "\xf4\x90\x80\x80", "continuation": "\x80", "cut": "\xe2\x82", "latin1": "\xe9t"}) {
		add(utf8Text, "utf8/bad/"+name, sends(text(`{"jsonrpc":"2.0","id":1,"method":"echo","params":["`+bad+`"]}`)), closes(1007))
		add(utf8Text, "utf8/bad/"+name+"/alone", sends(text(bad)), closes(1007))
		add(utf8Text, "utf8/bad/"+name+"/fragments", sends(part(false, opText, `["`), part(false, opContinuation, bad), part(true, opContinuation, `x"]`)), closes(1007))
	}
	add(utf8Text, "utf8/split-bad", sends(part(false, opText, "\"\xc3"), part(true, opContinuation, "x\"")), closes(1007))
	add(utf8Text, "utf8/cut-at-end", sends(part(false, opText, "\"x"), part(true, opContinuation, "\xf0\x9f")), closes(1007))
	add(utf8Text, "utf8/bad-after-good", sends(text(good), text("\xff")), yes, closes(1007))
	add(rfc6455+"5.6", "utf8/nul", sends(text("\x00")), gets(fault("null", -32700)), staysOpen)
	add(rfc6455+"5.6", "utf8/bom", sends(text("\ufeff"+good)), gets(fault("null", -32700)), staysOpen)

	// Messages.
	add(rfc6455+"5.4", "messages/two-in-one-write", sends(text(good), text(good)), yes, yes, staysOpen)
	add(rfc6455+"5.4", "messages/slowly", slowly(text(good)), yes, staysOpen)
	add(rfc6455+"5.4", "messages/newline-is-no-edge", sends(text(good+"\n"+good)), gets(fault("null", -32700)), staysOpen)
	add(answers4+"not JSON", "messages/bad-then-good", sends(text("{"), text(good)), gets(fault("null", -32700)), yes, staysOpen)
	add(rfc6455+"4.2.2", "messages/with-handshake", step{"the handshake and a message in one write", func(w *socketWire) error { return nil }}, staysOpen)
	rules[len(rules)-1].check = withHandshake
	add(rfc6455+"7.1.4", "abort", step{"a connection that ends without close", func(w *socketWire) error {
		return w.s.CloseWrite()
	}}, step{"the end", func(w *socketWire) error {
		_, err := w.Recv()
		if _, closed := errors.AsType[*CloseError](err); !closed && !errors.Is(err, io.EOF) {
			return err
		}
		return nil
	}})
	add("Times, timers", "keepalive", step{"nothing for 30 s", func(w *socketWire) error {
		_ = w.s.SetReadDeadline(time.Now().Add(35 * time.Second))
		f, err := readFrame(w.in)
		if err != nil {
			return err
		}
		if f.Op != opPing {
			return fmt.Errorf("want a ping, got opcode %d", f.Op)
		}
		return w.raw(Frame{Fin: true, Op: opPong, Payload: f.Payload}.bytes())
	}}, step{"a ping", func(w *socketWire) error { return nil }}, staysOpen)
	rules[len(rules)-1].slow = true
	add("Times, timers", "keepalive/no-pong", step{"no pong", func(w *socketWire) error {
		for {
			_ = w.s.SetReadDeadline(time.Now().Add(56 * time.Second))
			f, err := readFrame(w.in)
			if err != nil || f.Op == opClose {
				if errors.Is(err, io.EOF) || f.Op == opClose || strings.Contains(fmt.Sprint(err), "reset") {
					return nil
				}
				return err
			}
		}
	}}, step{"the end within 50 s", func(w *socketWire) error { return nil }})
	rules[len(rules)-1].slow = true
	add("Times, timers", "half-a-message", sends(part(false, opText, "{")), step{"the end within 30 s", func(w *socketWire) error {
		_ = w.s.SetReadDeadline(time.Now().Add(34 * time.Second))
		for {
			f, err := readFrame(w.in)
			switch {
			case err != nil:
				return fmt.Errorf("no close frame: %w", err)
			case f.Op == opClose:
				return nil
			}
		}
	}})
	rules[len(rules)-1].slow = true
	return rules
}

func many2(f Frame, n int) []Frame {
	all := make([]Frame, n)
	for i := range all {
		all[i] = f
	}
	return all
}

// withHandshake sends a first message before the response to the handshake.
func withHandshake(d *Demo, _ string) error {
	s, err := dialStream("tcp", d.web)
	if err != nil {
		return err
	}
	wire := &webWire{s: s, in: newStreamWire(s, false).in}
	defer wire.Close()
	if _, err := s.Write(append([]byte(fill(handshake, d.web)), text(good).bytes()...)); err != nil {
		return err
	}
	r, err := wire.read("GET", patience)
	if err != nil || r.StatusCode != 101 {
		return fmt.Errorf("no upgrade: %v", err)
	}
	return expect(&socketWire{s: s, in: wire.in}, one(ok("1", data)))
}
