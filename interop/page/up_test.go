package page

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/da1ed7bb/parley/interop/harness"
)

// An up is a running `parley up` with its own home folder.
type up struct {
	address string // with the token
	base    string // without the token
	token   string
	home    string
	stderr  *harness.Output // output at the terminal
	pid     int
}

// printed matches the address that `parley up` prints.
var printed = regexp.MustCompile(`(http://127\.0\.0\.1:\d+/)#token=([A-Za-z0-9_-]{43})`)

// start starts `parley up` on a free port.
func start(t *testing.T, args ...string) *up {
	t.Helper()
	u := &up{home: t.TempDir()}
	// Configurations of other programs, which the first run finds.
	for name, text := range map[string]string{
		".cursor/mcp.json": `{"mcpServers":{"notes":{"url":"http://127.0.0.1:9/mcp"},"files":{"command":"files-server","args":["--all"]}}}`,
	} {
		file := filepath.Join(u.home, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	program := os.Getenv("PARLEY_PROGRAM") // already built
	if program == "" {
		program = harness.Parley(t)
	}
	cmd := harness.Command(context.Background(), t, append([]string{program, "up", "--listen", "127.0.0.1:0"}, args...))
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "HOME="+u.home, "XDG_CONFIG_HOME="+u.home+"/config", "XDG_STATE_HOME="+u.home+"/state")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	u.pid = cmd.Process.Pid
	output := new(harness.Output)
	output.ShowIfFailed(t, "parley up")
	u.stderr = output
	found := make(chan []string, 1)
	read := make(chan struct{})
	go func() {
		defer close(read)
		lines := bufio.NewScanner(io.TeeReader(stderr, output))
		for lines.Scan() {
			if m := printed.FindStringSubmatch(lines.Text()); m != nil {
				select {
				case found <- m:
				default:
				}
			}
		}
	}()
	t.Cleanup(func() {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Errorf("parley up was gone: %v", err)
		}
		<-read
		if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() != 130 {
			t.Errorf("parley up ended with %v", err)
		}
	})
	select {
	case m := <-found:
		u.address, u.base, u.token = m[0], m[1], m[2]
	case <-read:
		t.Fatal("parley up ended")
	case <-time.After(time.Minute):
		t.Fatal("parley up does not say what to open")
	}
	return u
}

// page opens the page at a place such as "target=@table", and waits until it is ready.
func (u *up) page(t *testing.T, l look, place string) *tab {
	t.Helper()
	p := open(t, u.at(place), l)
	p.until("the page is not alive", thing("region", "Wire")+" || "+thing("region", "/Wire|Composer|Start/"))
	return p
}

// at returns the address of a place, with the token.
func (u *up) at(place string) string {
	if place == "" {
		return u.address
	}
	return u.address + "&" + place
}

// call calls a method of the page's own server, as the page does, and returns the last message of
// the response.
func (u *up) call(t *testing.T, method string, params any) jsontext.Value {
	t.Helper()
	status, answer := u.post(t, u.base+"rpc", u.token, nil, method, params)
	if status != http.StatusOK {
		t.Fatalf("%s: status %d: %s", method, status, answer)
	}
	if i := bytes.LastIndex(answer, []byte("data: ")); i >= 0 { // an event stream
		answer = bytes.TrimSpace(answer[i+len("data: "):])
	}
	var r struct {
		Result jsontext.Value `json:"result"`
		Error  jsontext.Value `json:"error"`
	}
	if err := json.Unmarshal(answer, &r); err != nil {
		t.Fatalf("%s: %v: %s", method, err, answer)
	}
	if r.Error != nil {
		t.Fatalf("%s: %s", method, r.Error)
	}
	return r.Result
}

func (u *up) post(t *testing.T, address, token string, header http.Header, method string, params any) (int, []byte) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Authorization", "Bearer "+token)
	for k, v := range header {
		r.Header[k] = v
		if k == "Host" {
			r.Host = v[0]
		}
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, answer
}

// total returns the number of recorded rows.
func (u *up) total(t *testing.T) int {
	t.Helper()
	var r struct {
		Total int `json:"total"`
	}
	if err := json.Unmarshal(u.call(t, "wire/select", map[string]any{"filter": ""}), &r); err != nil {
		t.Fatal(err)
	}
	return r.Total
}

// open opens a target of the page.
func (u *up) open(t *testing.T, address string, more ...string) {
	t.Helper()
	params := map[string]any{"target": address, "handshake": false}
	for _, m := range more {
		name, value, _ := strings.Cut(m, "=")
		params[name] = value
		if name == "protocol" {
			delete(params, "handshake")
		}
	}
	u.call(t, "targets/open", params)
}

// draftLink returns the place with that draft for a target in the composer.
func draftLink(target, text string) string {
	return "target=" + url.QueryEscape(target) + "&draft=" + base64.RawURLEncoding.EncodeToString([]byte(text))
}
