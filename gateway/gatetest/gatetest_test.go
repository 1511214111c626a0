package gatetest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is how long an exchange may take: long, unless it is expected to stall.
func patience(want string) time.Duration {
	if want == "stalled" {
		return 100 * time.Millisecond
	}
	return 30 * time.Second
}

// exchangeHTTP posts body on a connection of its own and returns the status and body, or the kind
// of the error.
func exchangeHTTP(t *testing.T, u *Upstream, body, want string) string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience(want)}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, u.URL(), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return kindOf(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return kindOf(err)
	}
	return strings.TrimSpace(fmt.Sprint(resp.StatusCode, resp.Header.Get("Retry-After"), " ", string(text)))
}

// exchangeTCP sends a line on a connection of its own, and returns what comes back: as many bytes
// as want has, or all until the connection ends.
func exchangeTCP(t *testing.T, u *Upstream, line, want string) string {
	t.Helper()
	var d net.Dialer
	c, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(u.URL(), "tcp://"))
	if err != nil {
		return kindOf(err)
	}
	defer c.Close()
	fmt.Fprintln(c, line)
	c.SetReadDeadline(time.Now().Add(patience(want)))
	var text []byte
	for piece := make([]byte, 4096); len(text) < len(want); {
		n, err := c.Read(piece)
		text = append(text, piece[:n]...)
		if err != nil {
			return strings.TrimSpace(string(text) + " " + kindOf(err))
		}
	}
	return strings.ReplaceAll(string(text), "\n", "|")
}

func kindOf(err error) string {
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return "cut"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "stalled"
	}
	return err.Error()
}

const (
	call  = `{"jsonrpc":"2.0","method":"m","params":[1.50],"id":"x"}`
	array = `[{"jsonrpc":"2.0","method":"a","id":1},{"jsonrpc":"2.0","method":"n"},{"jsonrpc":"2.0","method":"b","id":1.0}]`

	answer  = `{"jsonrpc":"2.0","result":["u","m",[1.50]],"id":"x"}`
	answerA = `{"jsonrpc":"2.0","result":["u","a",null],"id":1}`
	answerB = `{"jsonrpc":"2.0","result":["u","b",null],"id":1.0}`
	again   = `{"jsonrpc":"2.0","result":"again","id":"x"}`
	refusal = `{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"},"id":null}`
)

func TestFaults(t *testing.T) {
	for _, c := range []struct {
		send      string
		step      Step
		http, tcp string
	}{
		{call, Step{}, "200 " + answer, answer + "|"},
		{call, Step{RetryAfter: "7"}, "2007 " + answer, answer + "|"},
		{call, Step{After: time.Millisecond}, "200 " + answer, answer + "|"},
		{array, Step{}, "200 [" + answerA + "," + answerB + "]", "[" + answerA + "," + answerB + "]|"},
		{`{"jsonrpc":"2.0","method":"n"}`, Step{}, "204", "stalled"},
		{call, Step{Fault: Stall}, "stalled", "stalled"},
		{call, Step{Fault: Cut}, "cut", "cut"},
		{call, Step{Fault: CutHalf}, "cut", answer[:len(answer)/2] + " cut"},
		{call, Step{Fault: Garbage}, "200 " + garbage, garbage + "|"},
		{call, Step{Fault: Status}, "500 " + garbage, garbage + "|"},
		{call, Step{Fault: Status, Status: 429, RetryAfter: "3"}, "4293 " + garbage, garbage + "|"},
		{call, Step{Fault: Status, Status: 404}, "404 " + garbage, garbage + "|"},
		{call, Step{Fault: WrongID}, "200 " + strings.Replace(answer, `"x"`, `"another"`, 1), strings.Replace(answer, `"x"`, `"another"`, 1) + "|"},
		{call, Step{Fault: Twice}, "200 " + answer + "\n" + again, answer + "|" + again + "|"},
		{call, Step{Fault: Missing}, "204", "stalled"},
		{array, Step{Fault: Missing}, "200 [" + answerA + "]", "[" + answerA + "]|"},
		{array, Step{Fault: Reversed}, "200 [" + answerB + "," + answerA + "]", "[" + answerB + "," + answerA + "]|"},
		{array, Step{Fault: NoArrays}, "200 " + refusal, refusal + "|"},
		{call, Step{Fault: NoArrays}, "200 " + answer, answer + "|"},
		{call, Step{Fault: Error}, `200 {"jsonrpc":"2.0","error":{"code":7,"message":"no such plan","data":{"by":"u"}},"id":"x"}`,
			`{"jsonrpc":"2.0","error":{"code":7,"message":"no such plan","data":{"by":"u"}},"id":"x"}|`},
	} {
		t.Run(fmt.Sprint(c.step, c.send[:1]), func(t *testing.T) {
			h, tcp := HTTP(t, "u"), TCP(t, "u")
			h.Next(c.step)
			tcp.Next(c.step)
			if got := exchangeHTTP(t, h, c.send, c.http); got != c.http {
				t.Errorf("HTTP: %s, want %s", got, c.http)
			}
			if got := exchangeTCP(t, tcp, c.send, c.tcp); got != c.tcp {
				t.Errorf("TCP: %s, want %s", got, c.tcp)
			}
			for _, u := range []*Upstream{h, tcp} {
				if got := u.Payloads(); len(got) != 1 || string(got[0].Text) != c.send || u.Connections() != 1 {
					t.Errorf("%s got %d payloads over %d connections", u.scheme, len(got), u.Connections())
				}
			}
		})
	}
}

func TestCountsAndPlans(t *testing.T) {
	for _, begin := range []func(testing.TB, string) *Upstream{HTTP, TCP} {
		u := begin(t, "u")
		exchange := exchangeHTTP
		if u.scheme == "tcp" {
			exchange = exchangeTCP
		}
		u.Always(Step{Fault: Cut})
		u.Next(Step{}, Step{Fault: Error})
		for _, want := range []string{"result", `error":{"code":7`, "cut"} {
			if got := exchange(t, u, call, answer); !strings.Contains(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
		}
		u.By(func(p *Payload) Step {
			if p.Messages[0].Method == "a" && len(p.Messages) == 3 && p.Messages[1] == (Message{Method: "n"}) && p.Messages[2].ID == "1.0" {
				return Step{}
			}
			return Step{Fault: Garbage}
		})
		if got := exchange(t, u, array, "["+answerA+","+answerB+"]"); !strings.Contains(got, answerB) {
			t.Errorf("%s", got)
		}
		u.Refuse()
		if got := exchange(t, u, call, "refused"); got != "refused" {
			t.Errorf("%s", got)
		}
		u.Accept()
		u.By(nil)
		u.Always(Step{})
		if got := exchange(t, u, call, answer); !strings.Contains(got, answer) {
			t.Errorf("%s", got)
		}
		u.Await(7)
		if u.Count("") != 7 || u.Count("m") != 4 || u.Count("n") != 1 || u.Connections() != 5 || u.Most() < 1 {
			t.Errorf("%d messages, %d and %d, %d connections, %d at once", u.Count(""), u.Count("m"), u.Count("n"), u.Connections(), u.Most())
		}
	}
}
