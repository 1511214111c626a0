package page

import (
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/da1ed7bb/parley/interop/harness"
)

var axeSource = sync.OnceValue(func() string {
	text, err := os.ReadFile("node/node_modules/axe-core/axe.min.js")
	if err != nil {
		return ""
	}
	return string(text)
})

// A violation is one that axe-core found.
type violation struct {
	ID    string   `json:"id"`
	Help  string   `json:"help"`
	Nodes []string `json:"nodes"`
}

// judge runs axe-core on the current page, with all rules that are enabled by default.
func (p *tab) judge(state string) {
	p.t.Helper()
	harness.Need(p.t, "axe-core", "node/node_modules/.installed-from")
	if !ask[bool](p, "!!window.axe") {
		ask[bool](p, "(() => {"+axeSource()+"\n;return true})()")
	}
	const run = `axe.run(document, {resultTypes: ["violations"]}).then((r) => r.violations.map((v) => ({id: v.id, help: v.help, nodes: v.nodes.map((n) => n.target.flat().join(" ") + ": " + n.html.slice(0, 160) + " " + (n.any[0]?.message ?? n.all[0]?.message ?? n.none[0]?.message ?? ""))})))`
	for _, v := range ask[[]violation](p, run) {
		p.t.Errorf("%s, %v: axe %s: %s\n\t%s", state, p.look, v.ID, v.Help, strings.Join(v.Nodes[:min(4, len(v.Nodes))], "\n\t"))
	}
}

// judgeBoth runs judge and takes a screenshot, in light and in dark mode.
func (p *tab) judgeBoth(state string) {
	p.t.Helper()
	was := p.look
	for _, dark := range []bool{false, true} {
		l := was
		l.dark = dark
		p.as(l)
		p.until("the colours do not change", "getComputedStyle(document.documentElement).colorScheme !== 'x' && matchMedia('(prefers-color-scheme: dark)').matches === "+map[bool]string{true: "true", false: "false"}[dark])
		p.judge(state)
		p.shot(state)
	}
	p.as(was)
}

// TestAxeFindsFaults checks that axe-core finds the faults of a page that has some.
func TestAxeFindsFaults(t *testing.T) {
	t.Parallel()
	p := open(t, `data:text/html,<html><title>x</title><body><img src="data:,"><button></button><p style="color:%23ccc;background:%23fff">pale</p>`, desk)
	harness.Need(t, "axe-core", "node/node_modules/.installed-from")
	ask[bool](p, "(() => {"+axeSource()+"\n;return true})()")
	found := ask[[]string](p, `axe.run(document).then((r) => r.violations.map((v) => v.id))`)
	for _, want := range []string{"html-has-lang", "image-alt", "button-name", "color-contrast"} {
		if !strings.Contains(" "+strings.Join(found, " ")+" ", " "+want+" ") {
			t.Errorf("axe does not find %s; it found %q", want, found)
		}
	}
}
