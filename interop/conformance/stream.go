package conformance

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// A scene is a sequence on a byte stream: what is sent, and what must be received.
type scene struct {
	sends string
	gets  []want // messages, in any order if they are responses to concurrent requests
	// "open": the conversation continues; "closed": the server closes it; "half": we close our
	// side, and then so does the server
	end string
}

// streamRule returns a rule that runs a scene on byte stream transports.
func streamRule(source, id string, on []string, s scene) Rule {
	wants := make([]string, 0, len(s.gets)+1)
	for i, w := range s.gets {
		if i == 6 {
			wants = append(wants, fmt.Sprintf("… (%d)", len(s.gets)))
			break
		}
		wants = append(wants, w.String())
	}
	wants = append(wants, map[string]string{"open": "the conversation continues", "closed": "closed", "half": "after our half-close: the end"}[s.end])
	return Rule{ID: id, Source: source, Sends: s.sends, Wants: strings.Join(wants, "; "), On: on, check: func(d *Demo, carrier string) error {
		stream, err := d.stream(carrier)
		if err != nil {
			return err
		}
		defer func() { _ = stream.Close() }()
		wire := newStreamWire(stream, carrier == Header || carrier == TCPHeader)
		return d.play(wire, s)
	}}
}

func (d *Demo) play(wire *streamWire, s scene) error {
	sent := make(chan error, 1)
	go func() { // the server may respond, and close, before it has read everything
		_ = wire.s.SetWriteDeadline(time.Now().Add(patience))
		_, err := io.WriteString(wire.s, s.sends)
		if err == nil && s.end == "half" {
			err = wire.s.CloseWrite()
		}
		sent <- err
	}()
	for _, w := range s.gets {
		if err := expect(wire, w); err != nil {
			return err
		}
	}
	sendErr := <-sent
	switch s.end {
	case "open":
		return errors.Join(sendErr, d.probe(wire))
	case "half":
		if sendErr != nil {
			return sendErr
		}
	}
	return ended(wire.s, wire.in)
}

// lineRules returns the rules about newlines.
func lineRules() []Rule {
	var rules []Rule
	const crlf, end = decisions + "lines", answers4 + "frame cut off by end of stream"
	add := func(source, id string, s scene) { rules = append(rules, streamRule(source, "lines/"+id, lines, s)) }
	yes, bad := one(ok("1", data)), one(fault("null", -32700))
	invalid := one(fault("null", -32600))
	open := func(source, id, sends string, gets ...want) { add(source, id, scene{sends, gets, "open"}) }
	half := func(source, id, sends string, gets ...want) { add(source, id, scene{sends, gets, "half"}) }
	open(crlf, "lf", good+"\n", yes)
	open(crlf, "crlf", good+"\r\n", yes)
	open(crlf, "space-crlf", good+" \t\r\n", yes)
	open(crlf, "two-crs", good+"\r\r\n", yes)
	open(crlf, "two-lines", good+"\n"+good+"\n", yes, yes)
	open(crlf, "two-lines-crlf", good+"\r\n"+good+"\r\n", yes, yes)
	open(crlf, "hundred-lines", strings.Repeat(good+"\n", 100), repeatWant(yes, 100)...)
	open(crlf, "blank", "\n"+good+"\n", yes)
	open(crlf, "blank-crlf", "\r\n\r\n"+good+"\r\n", yes)
	open(crlf, "blank-spaces", "   \n \t \r\n"+good+"\n", yes)
	open(crlf, "blank-many", strings.Repeat("\n", 10000)+good+"\n", yes)
	open(crlf, "blank-long", strings.Repeat(" ", 100000)+"\n"+good+"\n", yes)
	open(crlf, "blank-alone", "\n", nil...)
	open(crlf, "blank-between", good+"\n\n\n"+good+"\n", yes, yes)
	open(crlf, "vertical-tab-is-not-blank", "\v\n"+good+"\n", bad, yes)
	open(crlf, "nul-is-not-blank", "\x00\n"+good+"\n", bad, yes)
	open(answers4+"not JSON", "bad-then-good", "{\n"+good+"\n", bad, yes)
	open(answers4+"not JSON", "many-bad-then-good", strings.Repeat("x\n", 50)+good+"\n", append(repeatWant(bad, 50), yes)...)
	open(answers4+"not JSON", "split-request", `{"jsonrpc":"2.0","id":1,`+"\n"+`"method":"get_data"}`+"\n"+good+"\n", bad, bad, yes)
	open(answers4+"not JSON", "pretty", "{\n\"jsonrpc\":\"2.0\"\n}\n"+good+"\n", bad, bad, bad, yes)
	open(answers4+"not JSON", "two-on-a-line", good+good+"\n"+good+"\n", bad, yes)
	open(answers4+"not JSON", "newline-in-string", `{"jsonrpc":"2.0","id":1,"method":"echo","params":["a`+"\n"+`b"]}`+"\n"+good+"\n", bad, bad, yes)
	open(answers4+"not JSON", "cr-is-no-edge", good+"\r"+good+"\n"+good+"\n", bad, yes)
	open(answers4+"not JSON", "line-separator-is-no-edge", good+"\u2028"+good+"\n"+good+"\n", bad, yes)
	open(answers4+"not JSON", "bad-utf8-then-good", "\xff\xfe\n"+good+"\n", bad, yes)
	open(answers4+"not JSON", "bom-then-good", "\ufeff"+good+"\n"+good+"\n", bad, yes)
	open(answers4+"not JSON", "header-framing", "Content-Length: 44\r\n\r\n"+good+"\n", bad, yes)
	open(answers4+"not JSON", "cr-in-blank", " \r \n"+good+"\n", yes)
	open(answers4+"a batch", "batch-line", "["+good+"]\n", array(ok("1", data)))
	open(jsonrpc2+"4.1", "notification-line", `{"jsonrpc":"2.0","method":"update"}`+"\n")
	open(rfc8259+"7", "answer-is-one-line", `{"jsonrpc":"2.0","id":1,"method":"echo","params":["\n\r\u2028"]}`+"\n", one(ok("1", `["\n\r\u2028"]`)))

	half(end, "last-line-without-newline", good, yes)
	half(end, "last-line-with-newline", good+"\n", yes)
	half(end, "last-line-cr", good+"\r", yes)
	half(end, "last-line-cut", good[:20], bad)
	half(end, "last-line-blank", good+"\n  ", yes)
	half(end, "nothing", "")
	half(end, "blank-alone-then-end", "\n\n")
	half(decisions+"on half-close running calls finish", "sleeping", `{"jsonrpc":"2.0","id":5,"method":"sleep","params":[150]}`+"\n", one(ok("5", "150")))
	half(decisions+"on half-close running calls finish", "sleeping-without-newline", `{"jsonrpc":"2.0","id":5,"method":"sleep","params":[150]}`, one(ok("5", "150")))
	half(decisions+"on half-close running calls finish", "two-sleeping", `{"jsonrpc":"2.0","id":5,"method":"sleep","params":[300]}`+"\n"+`{"jsonrpc":"2.0","id":6,"method":"sleep","params":[100]}`+"\n", one(ok("6", "100")), one(ok("5", "300")))
	half(decisions+"on half-close running calls finish", "sleeping-in-batch", `[{"jsonrpc":"2.0","id":5,"method":"sleep","params":[150]},`+good+`]`+"\n", array(ok("5", "150"), ok("1", data)))
	half(decisions+"on half-close running calls finish", "sleeping-a-second", `{"jsonrpc":"2.0","id":5,"method":"sleep","params":[1200]}`+"\n", one(ok("5", "1200")))
	half(decisions+"on half-close running calls finish", "hundred-quick", strings.Repeat(good+"\n", 100), repeatWant(yes, 100)...)
	half(decisions+"on half-close running calls finish", "large-answers", strings.Repeat(`{"jsonrpc":"2.0","id":1,"method":"echo","params":["`+strings.Repeat("x", 100000)+`"]}`+"\n", 20), repeatWant(one(ok("1", `["`+strings.Repeat("x", 100000)+`"]`)), 20)...)

	const long = answers4 + "too large, newline framing"
	big := strings.Repeat("x", 4<<20+1)
	open(long, "too-long", big+"\n"+good+"\n", invalid, yes)
	open(long, "too-long-twice", big+"\n"+big+"\n"+good+"\n", invalid, invalid, yes)
	open(long, "too-long-20MiB", strings.Repeat("x", 20<<20)+"\n"+good+"\n", invalid, yes)
	open(long, "too-long-json", `{"jsonrpc":"2.0","id":1,"method":"echo","params":["`+strings.Repeat("x", 5<<20)+`"]}`+"\n"+good+"\n", invalid, yes)
	open(long, "too-long-between", good+"\n"+big+"\n"+good+"\n", yes, invalid, yes)
	open(long, "too-long-crlf", big+"\r\n"+good+"\r\n", invalid, yes)
	open(long, "just-fits", strings.Repeat(" ", 4<<20-len(good))+good+"\n"+good+"\n", yes, yes)
	open(long, "just-fits-crlf", strings.Repeat(" ", 4<<20-len(good))+good+"\r\n"+good+"\n", yes, yes)
	half(long, "too-long-to-the-end", big, invalid)
	half(long, "too-long-without-newline", good+"\n"+strings.Repeat("x", 6<<20), yes, invalid)

	// An HTTP request gets no response: its sender may be a web page.
	sockets := []string{TCP, Unix}
	for name, text := range sorted(map[string]string{
		"post": request{body: good + "\n" + good + "\n"}.text(), "post-1.0": "POST / HTTP/1.0\r\n\r\n" + good + "\n", "get": "GET / HTTP/1.1\r\nHost: {host}\r\n\r\n", "options": "OPTIONS * HTTP/1.1\r\n\r\n", "connect": "CONNECT a:1 HTTP/1.1\r\n\r\n", "put": "PUT /x HTTP/1.1\r\n\r\n" + good + "\n", "head": "HEAD / HTTP/1.1\r\n\r\n", "lf-only": "POST / HTTP/1.1\n\n" + good + "\n", "http2": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "custom-method": "FOO /x HTTP/1.1\r\n\r\n" + good + "\n", "absolute": "POST http://127.0.0.1:1/ HTTP/1.1\r\n\r\n" + good + "\n", "long-target": "POST /" + strings.Repeat("a", 5000) + " HTTP/1.1\r\n\r\n" + good + "\n", "spaces-in-target": "POST /a b HTTP/1.1\r\n\r\n" + good + "\n", "blank-first": "\r\n\r\nPOST / HTTP/1.1\r\n\r\n" + good + "\n", "target-past-limit": "POST /" + strings.Repeat("a", 5<<20) + " HTTP/1.1\r\n\r\n" + good + "\n",
	}) {
		rules = append(rules, streamRule(answers4+"HTTP request line on a stream", "lines/http/"+name, sockets, scene{text, nil, "closed"}))
	}
	rules = append(rules,
		Rule{ID: "lines/half-close/asking", Source: decisions + "on half-close running calls finish", Sends: "ask, then our side ends", Wants: "-32603, since no response can arrive, then the end", On: lines, check: func(d *Demo, carrier string) error {
			s, err := d.stream(carrier)
			if err != nil {
				return err
			}
			defer func() { _ = s.Close() }()
			w := newStreamWire(s, false)
			if err := say(w, `{"jsonrpc":"2.0","id":1,"method":"ask","params":["x"]}`); err != nil {
				return err
			}
			if _, err := asked(w, "answer"); err != nil {
				return err
			}
			if err := s.CloseWrite(); err != nil {
				return err
			}
			if err := expect(w, one(fault("1", -32603))); err != nil {
				return err
			}
			return ended(s, w.in)
		}},
		streamRule(answers4+"HTTP request line on a stream", "lines/http/not-first", sockets, scene{good + "\nPOST / HTTP/1.1\n" + good + "\n", []want{yes, bad, yes}, "open"}),
		Rule{ID: "lines/http/nothing-runs", Source: answers4 + "HTTP request line on a stream", Sends: "POST / HTTP/1.1 with a log_event as its body", Wants: "no such event", On: []string{TCP}, check: nothingRuns},
		Rule{ID: "lines/slowly", Source: crlf, Sends: "a request byte by byte", Wants: yes.String(), On: lines, check: func(d *Demo, carrier string) error {
			s, err := d.stream(carrier)
			if err != nil {
				return err
			}
			defer func() { _ = s.Close() }()
			for _, c := range []byte(good + "\r\n\n" + good + "\n") {
				if _, err := s.Write([]byte{c}); err != nil {
					return err
				}
			}
			wire := newStreamWire(s, false)
			return errors.Join(expect(wire, yes), expect(wire, yes), d.probe(wire))
		}})
	return rules
}

func repeatWant(w want, n int) []want {
	all := make([]want, n)
	for i := range all {
		all[i] = w
	}
	return all
}

func nothingRuns(d *Demo, _ string) error {
	s, err := d.stream(TCP)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	if _, err := io.WriteString(s, "POST / HTTP/1.1\r\n\r\n"+`{"jsonrpc":"2.0","method":"log_event","params":["by a web page"]}`+"\n"); err != nil {
		return err
	}
	if err := ended(s, s); err != nil {
		return err
	}
	r, err := d.post1([]byte(`{"jsonrpc":"2.0","id":1,"method":"get_log"}`))
	if err != nil {
		return err
	}
	if strings.Contains(string(r.body), "by a web page") {
		return errors.New("it ran")
	}
	return nil
}

// headerRules returns the rules about Content-Length framing.
func headerRules() []Rule {
	const lsp = "LSP 3.17, Base Protocol"
	var rules []Rule
	yes, bad, invalid := one(ok("1", data)), one(fault("null", -32700)), one(fault("null", -32600))
	framed := func(text string) string { return fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(text), text) }
	add := func(source, id, end, sends string, gets ...want) {
		rules = append(rules, streamRule(source, "headers/"+id, headers, scene{sends, gets, end}))
	}
	n := len(good)
	add(lsp, "one", "open", framed(good), yes)
	add(lsp, "two", "open", framed(good)+framed(good), yes, yes)
	add(lsp, "hundred", "open", strings.Repeat(framed(good), 100), repeatWant(yes, 100)...)
	for name, header := range sorted(map[string]string{
		"lower-case": "content-length: %d\r\n\r\n", "upper-case": "CONTENT-LENGTH: %d\r\n\r\n", "no-space": "Content-Length:%d\r\n\r\n", "many-spaces": "Content-Length: \t  %d  \r\n\r\n", "leading-zeros": "Content-Length: 0000%d\r\n\r\n", "with-type": "Content-Length: %d\r\nContent-Type: application/vscode-jsonrpc; charset=utf-8\r\n\r\n", "type-first": "Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: %d\r\n\r\n", "utf8": "Content-Type: application/vscode-jsonrpc; charset=utf8\r\nContent-Length: %d\r\n\r\n", "type-without-charset": "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n", "type-quoted": "Content-Type: application/json; charset=\"UTF-8\"\r\nContent-Length: %d\r\n\r\n", "unknown-field": "X-Other: a: b\r\nContent-Length: %d\r\n\r\n", "fifteen-others": strings.Repeat("X: y\r\n", 15) + "Content-Length: %d\r\n\r\n", "long-line": "X: " + strings.Repeat("y", 4000) + "\r\nContent-Length: %d\r\n\r\n", "same-twice": "Content-Length: %[1]d\r\nContent-Length: %[1]d\r\n\r\n",
	}) {
		add(lsp, "good/"+name, "open", fmt.Sprintf(header, n)+good+framed(good), yes, yes)
	}
	add(lsp, "body/newlines", "open", framed("{\n\"jsonrpc\":\"2.0\",\r\n\"id\":1,\n\n\"method\":\"get_data\"\n}"), yes)
	add(lsp, "body/bytes-not-letters", "open", framed(`{"jsonrpc":"2.0","id":1,"method":"echo","params":["é€😀"]}`), one(ok("1", `["é€😀"]`)))
	add(lsp, "body/bad-then-good", "open", framed("{")+framed(good), bad, yes)
	add(lsp, "body/two-texts", "open", framed(good+good)+framed(good), bad, yes)
	add(lsp, "body/batch", "open", framed("["+good+","+good+"]"), array(ok("1", data), ok("1", data)))
	add(lsp, "body/bom", "open", framed("\ufeff"+good)+framed(good), bad, yes)
	add(lsp, "body/invalid-utf8", "open", framed("\"\xff\"")+framed(good), bad, yes)
	add(answers4+"empty line, empty body", "body/empty", "open", "Content-Length: 0\r\n\r\n"+framed(good), yes)
	add(answers4+"empty line, empty body", "body/empty-many", "open", strings.Repeat("Content-Length: 0\r\n\r\n", 50)+framed(good), yes)
	add(lsp, "charset/latin1", "open", fmt.Sprintf("Content-Type: application/json; charset=iso-8859-1\r\nContent-Length: %d\r\n\r\n", n)+good+framed(good), bad, yes)
	add(lsp, "charset/utf-16", "open", fmt.Sprintf("Content-Length: %d\r\nContent-Type: application/json; charset=utf-16\r\n\r\n", n)+good+framed(good), bad, yes)

	const wrong = answers4 + "negative, signed, non-numeric, conflicting Content-Length"
	for name, v := range sorted(map[string]string{"negative": "-1", "minus-zero": "-0", "plus": "+44", "word": "abc", "empty": "", "hex": "0x2c", "fraction": "44.0", "space-inside": "4 4", "exponent": "4e1", "list": "44, 44", "list-other": "44, 45", "quoted": `"44"`, "letter-after": "44a", "wide": "４４", "underscore": "4_4", "comma": "44,", "semicolon": "44;", "nul": "44\x00"}) {
		add(wrong, "length/"+name, "closed", "Content-Length: "+v+"\r\n\r\n"+good, bad)
		add(wrong, "length/"+name+"/after-good", "closed", framed(good)+"Content-Length: "+v+"\r\n\r\n"+good, yes, bad)
	}
	add(wrong, "length/two", "closed", fmt.Sprintf("Content-Length: %d\r\nContent-Length: %d\r\n\r\n", n, n+1)+good, bad)
	add(wrong, "length/two-reversed", "closed", fmt.Sprintf("Content-Length: %d\r\nContent-Length: %d\r\n\r\n", n+1, n)+good, bad)
	add(wrong, "length/two-cases", "closed", fmt.Sprintf("Content-Length: %d\r\ncontent-length: %d\r\n\r\n", n, n+1)+good, bad)
	add(lsp, "length/missing", "closed", "Content-Type: application/json\r\n\r\n"+good, bad)
	add(lsp, "length/missing-empty-block", "closed", "\r\n"+good, bad)
	add(lsp, "line/json", "closed", good+"\n"+good+"\n", bad)
	add(lsp, "line/no-colon", "closed", "Content-Length 44\r\n\r\n"+good, bad)
	add(lsp, "line/no-name", "closed", ": 44\r\n\r\n"+good, bad)
	add(lsp, "line/space-before-colon", "closed", "Content-Length : 44\r\n\r\n"+good, bad)
	add(lsp, "line/space-first", "closed", " Content-Length: 44\r\n\r\n"+good, bad)
	add(lsp, "line/bom", "closed", "\ufeff"+framed(good), bad)
	const bounds = limits2 + ": header-framed line, block, fields"
	add(bounds, "bound/line", "closed", "X: "+strings.Repeat("y", 4096)+"\r\n"+framed(good), bad)
	add(bounds, "bound/line-without-end", "closed", "X: "+strings.Repeat("y", 9000), bad)
	add(bounds, "bound/block", "closed", strings.Repeat("X: "+strings.Repeat("y", 3000)+"\r\n", 3)+framed(good), bad)
	add(bounds, "bound/fields", "closed", strings.Repeat("X: y\r\n", 16)+framed(good), bad)
	add(bounds, "bound/garbage", "closed", strings.Repeat("x", 20000), bad)
	const large = answers4 + "too large, header framing"
	add(large, "large/4MiB", "open", framed(strings.Repeat(" ", 4<<20-n)+good)+framed(good), yes, yes)
	add(large, "large/4MiB-and-1", "open", framed(strings.Repeat(" ", 4<<20-n+1)+good)+framed(good), invalid, yes)
	add(large, "large/10MiB", "open", framed(strings.Repeat("x", 10<<20))+framed(good), invalid, yes)
	add(large, "large/past-64MiB", "closed", fmt.Sprintf("Content-Length: %d\r\n\r\nxxx", 64<<20+1), invalid)
	add(large, "large/past-int64", "closed", "Content-Length: 99999999999999999999999\r\n\r\nxxx", invalid)
	add(answers4+"frame cut off by end of stream", "cut/body", "half", framed(good)+"Content-Length: 44\r\n\r\n{", yes)
	add(answers4+"frame cut off by end of stream", "cut/header", "half", framed(good)+"Content-Len", yes)
	add(answers4+"frame cut off by end of stream", "cut/between", "half", framed(good)+"Content-Length: 44\r\n", yes)
	add(answers4+"frame cut off by end of stream", "cut/nothing", "half", "")
	add(decisions+"on half-close running calls finish", "half-close/answered", "half", framed(good), yes)
	add(decisions+"on half-close running calls finish", "half-close/sleeping", "half", framed(`{"jsonrpc":"2.0","id":5,"method":"sleep","params":[150]}`), one(ok("5", "150")))
	rules = append(rules, streamRule(answers4+"HTTP request line on a stream", "headers/http/post", []string{TCPHeader}, scene{request{body: good}.text(), nil, "closed"}),
		streamRule(answers4+"HTTP request line on a stream", "headers/http/get", []string{TCPHeader}, scene{"GET / HTTP/1.1\r\nContent-Length: 44\r\n\r\n" + good, nil, "closed"}))
	return rules
}
