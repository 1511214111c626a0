package page

import "testing"

// narrow fails if an element makes the page wider than the window.
func (p *tab) narrow(state string) {
	p.t.Helper()
	type wide struct {
		Width int    `json:"width"`
		What  string `json:"what"`
	}
	w := ask[wide](p, `(() => {
		const doc = document.scrollingElement;
		const over = [...document.querySelectorAll("body *")].filter((e) => eyes.visible(e) && e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".scroll, [class*=tabs], pre, .ed, .seg") && !e.parentElement.closest(".sr"));
		return {width: doc.scrollWidth, what: over.slice(0, 3).map((e) => e.outerHTML.slice(0, 120)).join("\n")};
	})()`)
	if w.Width > int(p.look.width) {
		p.t.Errorf("%s: the page is %d wide in a window of %d:\n%s", state, w.Width, p.look.width, w.What)
	}
}

// TestPhone checks that on a phone everything can be reached, and nothing is wider than the window.
func TestPhone(t *testing.T) {
	t.Parallel()
	u := start(t)
	p := u.page(t, phone, "")
	p.see("heading", "Send a message to a server")
	p.narrow("first run")
	p.guideImage("phone-first-run")
	p.judgeBoth("first-run")
	p.click("button", "/^Send/")
	p.see("complementary", "Selected message")
	p.narrow("selected")
	p.judgeBoth("selected")
	p.click("button", "Close")
	p.row("subtract")
	p.narrow("wire")
	p.judgeBoth("wire")
	p.until("the gutter is cut off", `(r => r.width >= 44 && r.left >= 0)(document.querySelector(".row .gut").getBoundingClientRect())`)
	p.click("tab", "Timeline")
	p.see("region", "Waterfall")
	p.narrow("timeline")
	p.judgeBoth("timeline")
	p.click("tab", "Messages")
	p.clickOn(onRow("subtract"))
	p.see("complementary", "Selected message")
	p.click("button", "Close")
	p.click("button", "Open the composer")
	p.see("textbox", "Bytes to send")
	p.narrow("composer")
	p.judgeBoth("composer")
	p.click("button", "Back to the wire")
	p.click("button", "Targets")
	p.see("navigation", "/Targets/")
	p.narrow("targets")
	p.judgeBoth("targets")
	p.key("Esc")

	p.visit(u.at(draftLink("@table", bookTable)))
	p.click("button", "Send")
	p.see("region", "Question for you")
	p.narrow("question")
	p.judgeBoth("question")
	p.click("button", "Answer")
	p.see("textbox", "Bytes to send")
	p.narrow("answer")
	p.fill("textbox", "/^Name on the booking/", "Ada")
	p.click("button", "/^Accept/")
	p.row(bookRow + ".*result")
	p.click("button", "Close")
	p.until("the call does not hold its progress", `eyes.rows().filter((r) => r.level > 1 && /notifications\/progress/.test(r.text)).length >= 2`)
	p.narrow("call")
	p.judgeBoth("call")
	p.guideImage("phone-call")

	p.as(look{width: 1024, height: 768})
	p.narrow("tablet")
	p.judgeBoth("tablet")
}

// TestZoom checks that text of double size fits, too.
func TestZoom(t *testing.T) {
	t.Parallel()
	u := start(t)
	u.chatter(t)
	p := u.page(t, look{width: 720, height: 450}, draftLink("@demo", `{"jsonrpc":"2.0","id":1,"method":"echo"}`))
	p.row("nowhere")
	p.narrow("twice as large")
	p.judge("twice as large")
	p.shot("zoom")
	p.until("Send is out of sight", `(r => r.bottom <= innerHeight && r.top >= 0)(`+thing("button", "/^Send/")+`.getBoundingClientRect())`)
	p.click("button", "/^Send/")
	p.row("echo .*result") // the page selects it
	p.clickOn(onRow("nowhere"))
	p.see("complementary", "Selected message")
	p.narrow("selected, twice as large")
	p.judge("selected, twice as large")
	p.shot("zoom-selected")
	p.key("t")
	p.until("the calls are not in sight", `(r => r.bottom <= innerHeight && r.width > 80)([...document.querySelectorAll(".tl .track")][0].getBoundingClientRect())`)
	p.narrow("the timeline, twice as large")
	p.judge("the timeline, twice as large")
	p.shot("zoom-timeline")
}

// TestDark checks that the colours follow the system's setting, and a manual choice is stored.
func TestDark(t *testing.T) {
	t.Parallel()
	u := start(t)
	ground := `getComputedStyle(document.body).backgroundColor`
	p := u.page(t, desk, "")
	light := ask[string](p, ground)
	p.as(night)
	p.until("the page stays light at night", ground+" !== "+quoted(light))
	dark := ask[string](p, ground)
	p.click("button", "Light or dark")
	p.until("the button does not change it", ground+" === "+quoted(light))
	p.visit(u.address)
	p.until("the choice is forgotten", ground+" === "+quoted(light))
	p.click("button", "Light or dark")
	p.until("the button does not change it back", ground+" === "+quoted(dark))
	p.as(desk)
	p.until("the choice is not stronger than the system", ground+" === "+quoted(dark))
}
