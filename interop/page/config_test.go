package page

import (
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/da1ed7bb/parley/interop/harness"
)

// paste replaces the content of the configuration field.
func (p *tab) paste(text string) {
	p.t.Helper()
	p.click("textbox", "Paste a config")
	p.key("Ctrl+a")
	p.write(text)
	p.until("the field does not have what was pasted", `document.getElementById("paste").value === `+quoted(text))
}

// TestPasteConfig checks that a pasted configuration opens its addresses at once. Its programs are
// only shown as a command to type. With any content, no program is started, none of our environment
// variables is expanded, and no script runs.
func TestPasteConfig(t *testing.T) {
	demo, err := url.Parse(harness.Demo(t, "http://127.0.0.1:0")[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PLACES_KEY", "a-private-value")
	mark := filepath.Join(t.TempDir(), "started")
	program := `"command":"sh","args":["-c",` + asJSON("touch "+mark) + `]`
	u := start(t)
	p := u.page(t, desk, "")

	p.paste(`{ // as it stands in a client
  "mcpServers": {
    "tables": {"url": "http://` + demo.Host + `/mcp", "headers": {"Authorization": "Bearer hidden-token-1"}},
    "files": {` + program + `, "env": {"API_KEY": "hidden-key-2"}},
    "guess": {"url": "http://` + demo.Host + `/${PLACES_KEY}"},
  },
}`)
	p.says("files runs a command. Save this config, then start it yourself")
	p.says("only parley up -c FILE expands variables")
	if ask[bool](p, `document.body.innerText.includes("is not set")`) {
		t.Error("the page says which variables are set")
	}
	for _, secret := range []string{"a-private-value", "hidden-key-2"} {
		if ask[bool](p, `document.body.innerText.includes(`+quoted(secret)+`)`) {
			t.Errorf("the page shows %s", secret)
		}
	}
	p.guideImage("paste-config")
	p.judgeBoth("pasted")
	p.clickOn(`eyes.all("button", "Open").find((e) => /tables/.test(eyes.text(e.closest("li"))))`)
	p.row("initialize")
	p.see("region", "Composer")
	p.until("nothing is composed for it", `/tools\/call/.test(eyes.bytes())`)

	// The same in other programs' formats, and broken ones.
	p.click("button", "parley, first page")
	p.paste("[mcp_servers.search]\ncommand = \"sh\"\nargs = ['-c', 'touch " + mark + "']\n")
	p.says("search runs a command. Save this config, then start it yourself")
	p.paste("servers:\n  lines: {url: 'tcp://" + demo.Host + "'}\n  prog: {command: sh, args: [-c, 'touch " + mark + "']}\n")
	p.says("prog runs a command. Save this config, then start it yourself")
	// After saving, the shown command works.
	p.click("button", "/^Save as .*parley-[0-9a-f]+.yaml$/")
	p.says("prog runs a command. To start it: parley up -c /")
	self := os.Getenv("PARLEY_PROGRAM")
	if self == "" {
		self = harness.Parley(t)
	}
	shown := ask[string](p, `eyes.all("button").map((e) => eyes.clean(eyes.text(e)).trim()).find((e) => /^parley up -c/.test(e))`)
	check := exec.Command("sh", "-c", strings.Replace(shown, "parley up -c", self+" config check", 1))
	if out, err := check.CombinedOutput(); err != nil || !strings.Contains(string(out), "prog") {
		t.Errorf("%s: %v\n%s", shown, err, out)
	}
	p.paste("{\n \"mcpServers\": {\n  \"x\": {\"command\": \"sh\",, }}}")
	p.says("Line 3: not JSON")

	// Its content stays text.
	bad := asJSON(hostile)
	p.paste(`{"mcpServers":{` + bad + `:{` + program + `},"u` + strings.Trim(bad, `"`) + `":{"url":"http://h/` + strings.Trim(bad, `"`) + `"},` +
		`"j":{"url":"javascript:pwned()"},"s":{"url":"stdio:"},"e":{"url":"exec:sh -c 'touch ` + mark + `'"},"t":{"type":` + bad + `,"url":"http://h/"}}}`)
	p.says("runs a command. Save this config, then start it yourself")
	p.plain("the config")
	p.innocent()
	p.shot("hostile")
	p.judge("hostile")

	// The page's API behaves the same: it opens a program neither by the name of a configuration,
	// nor as an address.
	var read struct {
		Config string `json:"config"`
	}
	if err := json.Unmarshal(u.call(t, "config/read", map[string]any{"text": `{"servers":{"files":{` + program + `}}}`}), &read); err != nil {
		t.Fatal(err)
	}
	for _, params := range []map[string]any{
		{"config": read.Config, "name": "files"}, {"target": "files"}, {"target": "@files"}, {"target": "exec:sh"}, {"target": "stdio:"},
		{"target": "@files", "command": []string{"sh", "-c", "touch " + mark}},
	} {
		status, answer := u.post(t, u.base+"rpc", u.token, nil, "targets/open", params)
		if status != http.StatusOK || !strings.Contains(string(answer), `"error"`) {
			t.Errorf("targets/open %v: %d %s", params, status, answer)
		}
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("a program of the config was started")
	}
}

// TestFirstPageWithoutTargets checks that without the demo services and a file, the first page asks
// for an address.
func TestFirstPageWithoutTargets(t *testing.T) {
	t.Parallel()
	server := listen(t, refuse)
	u := start(t, "--no-demo")
	p := u.page(t, desk, "")
	p.see("heading", "Send a message to a server")
	p.see("textbox", "Address of a server")
	if ask[bool](p, `document.body.innerText.includes("@demo")`) {
		t.Error("the page speaks of @demo, which is not there")
	}
	p.judgeBoth("empty")
	p.fill("textbox", "Address of a server", server.address)
	p.key("Enter")
	p.see("region", "Composer")
	p.key("Ctrl+Enter")
	p.until("nothing is on the wire", `eyes.rows().some((r) => /ping/.test(r.text))`)
}
