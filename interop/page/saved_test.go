package page

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// choose selects an option of a select, and waits until the option is there.
func (p *tab) choose(name, value string) {
	p.t.Helper()
	p.see("combobox", name)
	p.until("the option "+value+" of "+name+" is missing", `[...`+thing("combobox", name)+`.options].some((o) => o.value === `+quoted(value)+`)`)
	ask[bool](p, `(() => { const e = `+thing("combobox", name)+`; e.value = `+quoted(value)+`; e.dispatchEvent(new Event("change", {bubbles: true})); return true })()`)
}

// TestSavedCall checks that a call is saved with a variable and a check, runs and passes, is
// changed and fails, and is the same after a reload. Its file can be written by a person.
func TestSavedCall(t *testing.T) {
	t.Parallel()
	u := start(t)
	p := u.page(t, desk, draftLink("@demo", `{"jsonrpc":"2.0","id":1,"method":"subtract","params":[42,23]}`))
	p.click("button", "Save")
	p.fill("textbox", "Name", "the difference")
	p.bytes(`{"jsonrpc":"2.0","id":"s","method":"subtract","params":[{{much}},23]}`)
	p.click("button", "much") // the variable without a value
	p.fill("textbox", "Value of much", "42")
	p.click("button", "Check")
	p.choose("Comparison of check 1", "equals")
	p.fill("textbox", "Value of check 1", "19")
	p.until("the form is gone, because of a variable", thing("textbox", "/^minuend/")+`?.value === "{{much}}"`)
	p.says("Valid JSON-RPC 2.0")
	p.click("button", "/^Send/")
	p.says("passed")
	p.row(`subtract.*"s"`)
	p.judgeBoth("saved-passed")
	p.click("button", "Save")
	p.says("Saved as")

	var list struct {
		Folder string         `json:"folder"`
		Rest   map[string]any `json:",embed"`
	}
	if err := json.Unmarshal(u.call(t, "saved/list", map[string]any{}), &list); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(list.Folder, "*.call.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("the files are %q, %v", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil || !strings.Contains(string(text), `"variables": {"much": "42"}`) || !strings.Contains(string(text), `{"path": "$.result", "is": "equals", "value": 19}`) {
		t.Fatalf("the file is %s, %v", text, err)
	}
	// A person edits it by hand.
	edited := "// of Friday\n" + strings.Replace(string(text), `"42"`, `100 /* more */`, 1)
	if err := os.WriteFile(files[0], []byte(edited), 0o600); err != nil {
		t.Fatal(err)
	}

	p.visit(u.at("target=" + "%40demo"))
	p.click("button", "the difference")
	p.until("the variable is not the one of the file", thing("textbox", "Value of much")+`?.value === "100"`)
	p.click("button", "/^Send/")
	p.says("failed")
	p.says("the value is 77")
	p.guideImage("saved")
	p.judgeBoth("saved-failed")
	p.as(phone)
	p.click("button", "/^Send/")
	p.until("on a phone the checks are not seen after Send", thing("textbox", "Value of check 1")+` && /the value is 77/.test(eyes.text(eyes.first("region", "Composer")))`)
	p.judgeBoth("saved-failed")
	p.click("button", "Headers and token")
	p.judgeBoth("headers")
	p.click("button", "Headers and token")
	p.as(desk)
	p.fill("combobox", "Path of check 1", "$.result")
	p.choose("Comparison of check 1", "more")
	p.click("button", "/^Send/")
	p.says("passed")
	p.click("button", "Save")
	p.says("Saved as")
	text, err = os.ReadFile(files[0])
	if want := strings.Replace(edited, `"is": "equals"`, `"is": "more"`, 1); err != nil || stamped(string(text)) != stamped(want) {
		t.Errorf("the file is\n%s\nwant\n%s", text, want)
	}

	// A second page does not overwrite a change that it has not loaded.
	if err := os.WriteFile(files[0], []byte(strings.Replace(string(text), "100", "101", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	p.click("button", "Save")
	p.says("has changed; open the call again")
	p.click("button", "Delete")
	p.click("button", "Delete the file")
	p.gone("button", "the difference")
	if _, err := os.Stat(files[0]); err == nil {
		t.Error("the file is still there")
	}
}

// stamped returns a file without the time at which it was saved.
func stamped(text string) string {
	begin, rest, _ := strings.Cut(text, `"updated": "`)
	_, rest, _ = strings.Cut(rest, `"`)
	return begin + rest
}
