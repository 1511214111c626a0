package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// answering returns options that answer every question with the same content.
func answering(action, content string) *mcp.ClientOptions {
	return &mcp.ClientOptions{Elicit: func(context.Context, *mcp.Elicitation) (*mcp.ElicitResult, error) {
		result := &mcp.ElicitResult{Action: action}
		if content != "" {
			result.Content = jsonrpc.Raw(content)
		}
		return result, nil
	}}
}

func TestBookings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMCP("test", nil)
		defer m.Close()
		c := connect(t, m, 0, answering(mcp.ActionAccept, `{"time":"21:00","name":"Ada","highChair":true}`))
		defer c.Close()
		for _, tt := range []struct{ name, arguments, want string }{
			// The table is free: no question.
			{"book-table", `{"restaurant":"blue door","guests":2,"time":"18:00"}`, "Blue Door, 2 guests, 18:00, by the window."},
			{"book-table", `{"restaurant":"Zur Linde","guests":4}`, "Zur Linde, 4 guests, 21:00, inside."},
			{"book-table", `{"restaurant":"Nowhere","guests":4}`, `error: There is no restaurant "Nowhere". There are Zur Linde, Blue Door, Osteria Bella.`},
			{"book-table", `{"restaurant":"Zur Linde","guests":4,"time":"03:00"}`, "error: All three restaurants are open from 17:00 to 22:00; 03:00 is outside of that."},
			{"book-table", `{"restaurant":"Zur Linde","guests":4,"time":"soon"}`, `error: "soon" is not a time: use 2026-03-14T19:30 or 19:30.`},
			{"book-table", `{"restaurant":"Zur Linde","guests":0}`, "must be at least 1"},
			{"book-table", `{"restaurant":"Zur Linde","guests":13}`, "must be at most"},
			{"cancel-booking", `{"confirmation":"ZL-1"}`, `error: There is no booking "ZL-1".`},
			{"read-menu", `{"restaurant":"osteria-bella"}`, "# Osteria Bella\n\n- Bruschetta, 6.80 €"},
			{"list-tables", `{"restaurant":"Zur Linde"}`, `{"time":"19:15","place":"garden","free":false},{"time":"19:15","place":"inside","free":false},{"time":"20:00","place":"garden","free":false}`},
		} {
			if got := tool(t, c, tt.name, tt.arguments); !strings.Contains(got, tt.want) {
				t.Errorf("%s %s = %s, want %s", tt.name, tt.arguments, got, tt.want)
			}
		}
		if all := m.table.all(); len(all) != 2 || all[1].Name != "Ada" || !all[1].HighChair || all[1].Confirmation != "ZL-20816" {
			t.Errorf("bookings %+v", all)
		}
		if got := tool(t, c, "cancel-booking", `{"confirmation":"ZL-20816"}`); !strings.HasPrefix(got, "The table at Zur Linde, ") {
			t.Errorf("cancel: %s", got)
		}
		read, err := c.ReadResource(t.Context(), bookingsURI, nil)
		if err != nil || !strings.Contains(read.Contents[0].Text, "BD-20815") || strings.Contains(read.Contents[0].Text, "ZL-") {
			t.Errorf("%v, %v", read, err)
		}
	})
}

func TestNothingIsBookedWhenTheUserSaysNo(t *testing.T) {
	for _, action := range []string{mcp.ActionDecline, mcp.ActionCancel} {
		for _, v := range []mcp.Version{mcp.V20250618, mcp.V20260728} {
			m := newMCP(t)
			c := connect(t, m, v, answering(action, ""))
			if got := tool(t, c, "book-table", `{"restaurant":"Zur Linde","guests":4}`); got != "Nothing was booked." {
				t.Errorf("%s %s: %s", v, action, got)
			}
			if all := m.table.all(); len(all) != 0 {
				t.Errorf("%s %s: booked %+v", v, action, all)
			}
		}
	}
}

// TestAnAnswerThatDoesNotFitIsToldWhy checks that an invalid answer gets an error with the reason,
// and that the caller can retry.
func TestAnAnswerThatDoesNotFitIsToldWhy(t *testing.T) {
	for _, tt := range []struct{ action, content, want string }{
		{mcp.ActionAccept, `{"time":"20:15","name":""}`, "at /name: must have at least 2 characters, not 0"},
		{mcp.ActionAccept, `{"time":"20:15"}`, "at /name: is required"},
		{mcp.ActionAccept, `{"time":"20:15","name":7}`, "at /name: must be a string, not a number"},
		{mcp.ActionAccept, `{"time":"03:00","name":"Ada"}`, "at /time: "},
		{"maybe", "", `unknown action "maybe"`},
	} {
		m := newMCP(t)
		c := connect(t, m, mcp.V20251125, answering(tt.action, tt.content))
		got := tool(t, c, "book-table", `{"restaurant":"Zur Linde","guests":4}`)
		if !strings.HasPrefix(got, "error: Nothing was booked: the answer does not match the form: ") || !strings.Contains(got, tt.want) {
			t.Errorf("%s %s: %s; want what is wrong with it: %s", tt.action, tt.content, got, tt.want)
		}
	}
	c := connect(t, newMCP(t), mcp.V20251125, &mcp.ClientOptions{Elicit: func(context.Context, *mcp.Elicitation) (*mcp.ElicitResult, error) {
		return nil, &jsonrpc.Error{Code: -1, Message: "not now"}
	}})
	if got, want := tool(t, c, "book-table", `{"restaurant":"Zur Linde","guests":4}`), "error: Nothing was booked: the question got the error response -1, not now."; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestBookTableHasExamples checks that the schema contains valid examples to prefill a form.
func TestBookTableHasExamples(t *testing.T) {
	var schema struct {
		Properties map[string]struct {
			Examples []jsonrpc.Raw `json:"examples"`
		} `json:"properties"`
		Required []string `json:"required"`
	}
	if err := json.Unmarshal(bookingSchema, &schema); err != nil {
		t.Fatal(err)
	}
	arguments := map[string]jsonrpc.Raw{}
	for name, p := range schema.Properties {
		if len(p.Examples) == 0 {
			t.Fatalf("%s has no example", name)
		}
		arguments[name] = p.Examples[0]
	}
	text, err := json.Marshal(arguments)
	if err != nil {
		t.Fatal(err)
	}
	c := connect(t, newMCP(t), mcp.V20251125, answering(mcp.ActionAccept, `{"time":"20:15","name":"Ada"}`))
	if got := tool(t, c, "book-table", string(text)); !strings.HasPrefix(got, "Zur Linde, 4 guests, 20:15") {
		t.Errorf("%s: %s", text, got)
	}
}

// TestTheSearchRunsOnce checks that the question causes only one search: its result is stored for
// the second round.
func TestTheSearchRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMCP("test", nil)
		defer m.Close()
		c := connect(t, m, mcp.V20260728, answering(mcp.ActionAccept, `{"time":"20:15","name":"Ada"}`))
		defer c.Close()
		began := time.Now()
		tool(t, c, "book-table", `{"restaurant":"Zur Linde","guests":4}`)
		if took := time.Since(began); took != searchTime+bookTime {
			t.Errorf("it took %v, want %v", took, searchTime+bookTime)
		}
	})
}

func TestBookingsTellTheirSubscribers(t *testing.T) {
	for _, v := range []mcp.Version{mcp.V20241105, mcp.V20251125, mcp.V20260728} {
		c := connect(t, newMCP(t), v, nil)
		enough := errors.New("enough")
		err := c.Listen(t.Context(), mcp.Filter{ResourceSubscriptions: []string{bookingsURI}}, func(ch mcp.Change) error {
			if ch.Method == mcp.NotifyAcknowledged {
				tool(t, c, "book-table", `{"restaurant":"Zur Linde","guests":1,"time":"17:00"}`)
				return nil
			}
			if ch.URI != bookingsURI {
				t.Errorf("%s: %+v", v, ch)
			}
			return enough
		})
		if !errors.Is(err, enough) {
			t.Errorf("%s: %v", v, err)
		}
	}
}

func TestBookingsAreBounded(t *testing.T) {
	m := newMCP(t)
	for i := range maxBookings + 3 {
		m.table.addBooking("ZL", booking{Guests: i})
	}
	if all := m.table.all(); len(all) != maxBookings || all[0].Guests != 3 {
		t.Errorf("%d bookings, the oldest for %d", len(all), all[0].Guests)
	}
}

func TestPrompts(t *testing.T) {
	c := connect(t, newMCP(t), 0, nil)
	for _, tt := range []struct {
		name string
		in   map[string]string
		want []string
	}{
		{"plan-evening", map[string]string{"city": "oslo"}, []string{"Plan an evening in Oslo for 2 people. In Oslo the sun"}},
		{"plan-evening", map[string]string{"city": "Oslo", "guests": "1", "restaurant": "Blue Door"}, []string{"Mushroom pie", "for one person", "the menu is above"}},
		{"explain-error", map[string]string{"code": "-32021"}, []string{`"Missing required client capability"`}},
		{"explain-error", map[string]string{"code": "17"}, []string{"belong to the application"}},
	} {
		got, err := c.GetPrompt(t.Context(), tt.name, tt.in, nil)
		if err != nil {
			t.Errorf("%s %v: %v", tt.name, tt.in, err)
			continue
		}
		text := fmt.Sprintf("%+v", got.Messages)
		for _, m := range got.Messages {
			if m.Content.Resource != nil {
				text += m.Content.Resource.Text
			}
		}
		for _, want := range tt.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s %v has no %q: %s", tt.name, tt.in, want, text)
			}
		}
	}
	for _, in := range []map[string]string{{"city": "Atlantis"}, {"city": "Oslo", "restaurant": "Nowhere"}, {}} {
		if _, err := c.GetPrompt(t.Context(), "plan-evening", in, nil); !errors.Is(err, jsonrpc.ErrInvalidParams) {
			t.Errorf("%v: %v, want invalid params", in, err)
		}
	}
	for argument, want := range map[string]string{"city": "Berlin", "restaurant": "Zur Linde", "guests": "12"} {
		found, err := c.Complete(t.Context(), &mcp.CompleteParams{Ref: mcp.Reference{Type: mcp.RefPrompt, Name: "plan-evening"},
			Argument: mcp.CompleteArgument{Name: argument, Value: want[:1]}})
		if err != nil || !strings.Contains(strings.Join(found.Values, "|"), want) {
			t.Errorf("%s: %v, %v", argument, found, err)
		}
	}
}

// TestEverythingIsDescribed checks that everything that the demo offers has a title and a
// description in sentences.
func TestEverythingIsDescribed(t *testing.T) {
	c := connect(t, newMCP(t), 0, nil)
	good := func(kind, name, title, description string) {
		if title == "" || len(description) < 25 || !strings.HasSuffix(description, ".") {
			t.Errorf("%s %s: title %q, description %q", kind, name, title, description)
		}
	}
	tools := 0
	for one, err := range c.Tools(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		good("tool", one.Name, one.Title, one.Description)
		if one.Annotations == nil {
			t.Errorf("tool %s has no annotations", one.Name)
		}
		var schema struct {
			Properties map[string]struct {
				Description string `json:"description"`
			} `json:"properties"`
		}
		for _, text := range []jsonrpc.Raw{one.InputSchema, one.OutputSchema} {
			if text == nil {
				continue
			}
			if err := decodeLoosely(text, &schema); err != nil {
				t.Fatal(err)
			}
			for name, p := range schema.Properties {
				if p.Description == "" {
					t.Errorf("tool %s: %s has no description", one.Name, name)
				}
			}
		}
		tools++
	}
	if tools != 15 {
		t.Errorf("%d tools", tools)
	}
	for r, err := range c.Resources(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		good("resource", r.URI, r.Title, r.Description)
	}
	for r, err := range c.ResourceTemplates(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		good("template", r.URITemplate, r.Title, r.Description)
	}
	for p, err := range c.Prompts(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		good("prompt", p.Name, p.Title, p.Description)
	}
}

// TestIcons checks the icons, introduced in 2025-11-25. Older clients receive them as an unknown
// member.
func TestIcons(t *testing.T) {
	for _, v := range []mcp.Version{mcp.V20251125, mcp.V20260728} {
		info := connect(t, newMCP(t), v, nil).ServerInfo()
		if len(info.Icons) != 1 || !strings.HasPrefix(info.Icons[0].Src, "data:image/svg+xml,") {
			t.Errorf("%s: icons %v", v, info.Icons)
		}
	}
}

// decodeLoosely decodes JSON with unknown members.
func decodeLoosely(text jsonrpc.Raw, v any) error { return json.Unmarshal(text, v) }
