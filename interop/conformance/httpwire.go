package conformance

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// fill inserts the address into a request: {host} with the port, {port} alone.
func fill(request, address string) string {
	port := address[strings.LastIndexByte(address, ':')+1:]
	return strings.NewReplacer("{host}", address, "{port}", port).Replace(request)
}

// A webWire is one HTTP/1.1 connection.
type webWire struct {
	s  Stream
	in *bufio.Reader
}

func (w *webWire) Send([]byte) error     { return errors.New("HTTP has no messages") }
func (w *webWire) Recv() ([]byte, error) { return nil, errors.New("HTTP has no messages") }
func (w *webWire) Close()                { _ = w.s.Close() }

func (d *Demo) dialWeb(address string) (*webWire, error) {
	s, err := dialStream("tcp", address)
	if err != nil {
		return nil, err
	}
	return &webWire{s: s, in: bufio.NewReaderSize(s, 64<<10)}, nil
}

// A reply is one HTTP response with its body.
type reply struct {
	*http.Response
	body []byte
}

// read reads the response to a request with the given method.
func (w *webWire) read(method string, within time.Duration) (*reply, error) {
	_ = w.s.SetReadDeadline(time.Now().Add(within))
	r, err := http.ReadResponse(w.in, &http.Request{Method: method})
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(r.Body)
	_ = r.Body.Close() // in memory
	return &reply{r, body}, err
}

// post sends a payload over HTTP and checks the response.
func (d *Demo) post(carrier string, text []byte, w want) error {
	var r *reply
	var err error
	if carrier == H2C {
		r, err = d.post2(text)
	} else {
		r, err = d.post1(text)
	}
	if err != nil {
		return err
	}
	return w.checkReply(r)
}

// checkReply checks the response to a payload (bad input; RFC 9110).
func (w want) checkReply(r *reply) error {
	switch {
	case w.status != 0:
		if r.StatusCode != w.status {
			return fmt.Errorf("the status is %s: %s", r.Status, short(r.body))
		}
		return nil
	case len(w.answers) == 0:
		if r.StatusCode != http.StatusNoContent || len(r.body) > 0 {
			return fmt.Errorf("the status is %s: %s", r.Status, short(r.body))
		}
		for _, name := range []string{"Content-Length", "Content-Type", "Transfer-Encoding"} {
			if r.Header.Get(name) != "" {
				return fmt.Errorf("a 204 with %s (RFC 9110, section 8.6)", name)
			}
		}
		return nil
	case r.StatusCode != http.StatusOK:
		return fmt.Errorf("the status is %s: %s", r.Status, short(r.body))
	case r.Header.Get("Content-Type") != "application/json":
		return fmt.Errorf("the Content-Type is %q", r.Header.Get("Content-Type"))
	}
	return w.check(bytes.TrimSuffix(r.body, []byte{'\n'}))
}

// post1To posts to a given address instead of the usual one.
func (d *Demo) post1To(address, text string) (*reply, error) {
	wire, err := d.dialWeb(address)
	if err != nil {
		return nil, err
	}
	defer wire.Close()
	if _, err := io.WriteString(wire.s, fill(request{body: text}.text(), address)); err != nil {
		return nil, err
	}
	return wire.read(http.MethodPost, patience)
}

func (d *Demo) post1(text []byte) (*reply, error) {
	wire, err := d.webWire()
	if err != nil {
		return nil, err
	}
	request := fmt.Sprintf("POST /rpc HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", d.web, len(text))
	_ = wire.s.SetWriteDeadline(time.Now().Add(patience))
	// A rejection may arrive before everything is sent.
	_, sendErr := wire.s.Write(append([]byte(request), text...))
	r, err := wire.read(http.MethodPost, patience)
	if err != nil {
		wire.Close()
		return nil, errors.Join(err, sendErr)
	}
	if r.Close || sendErr != nil {
		wire.Close()
	} else {
		d.giveBack(HTTP, wire)
	}
	return r, nil
}

func (d *Demo) webWire() (*webWire, error) {
	if wire := d.takeIdle(HTTP); wire != nil {
		return wire.(*webWire), nil
	}
	return d.dialWeb(d.web)
}

// http2 is a client for HTTP/2 in cleartext, with prior knowledge.
var http2 = func() *http.Client {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Client{Transport: &http.Transport{Protocols: protocols, Proxy: nil}, Timeout: patience}
}()

func (d *Demo) post2(text []byte) (*reply, error) {
	return d.request2(http.MethodPost, "/rpc", map[string]string{"Content-Type": "application/json"}, text)
}

func (d *Demo) request2(method, path string, header map[string]string, text []byte) (*reply, error) {
	q, err := http.NewRequestWithContext(context.Background(), method, "http://"+d.web+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	for name, value := range header {
		if name == "Host" {
			q.Host = fill(value, d.web)
			continue
		}
		q.Header.Set(name, fill(value, d.web))
	}
	r, err := http2.Do(q)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Body.Close() }() // read completely
	if r.ProtoMajor != 2 {
		return nil, errors.New("not HTTP/2: " + strconv.Itoa(r.ProtoMajor))
	}
	body, err := io.ReadAll(r.Body)
	return &reply{r, body}, err
}
