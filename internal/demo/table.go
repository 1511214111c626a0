package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// The service table books a table in a restaurant. It demonstrates what a single response cannot:
// progress, and a question in the middle of a call that the same code asks in both eras.

// A restaurant is a place with tables. It is full every evening between 19:00 and 20:14.
type restaurant struct {
	Name  string
	Slug  string // its name in a URI
	Code  string // prefix of its confirmations
	Menu  []dish
	Place [2]string // positions of the two later tables
}

type dish struct {
	Name  string `json:"name" jsonschema:"what it is"`
	Price string `json:"price" jsonschema:"in euros"`
}

var restaurants = []restaurant{
	{"Zur Linde", "zur-linde", "ZL", []dish{{"Potato soup", "7.50"}, {"Cheese noodles with onions", "13.80"}, {"Trout with almonds", "22.00"}, {"Plum dumplings", "8.20"}}, [2]string{"garden", "inside"}},
	{"Blue Door", "blue-door", "BD", []dish{{"Pea and mint soup", "8.00"}, {"Mushroom pie", "15.50"}, {"Fish and chips", "18.00"}, {"Sticky toffee pudding", "7.90"}}, [2]string{"by the window", "upstairs"}},
	{"Osteria Bella", "osteria-bella", "OB", []dish{{"Bruschetta", "6.80"}, {"Lemon risotto", "16.00"}, {"Saltimbocca", "23.50"}, {"Panna cotta", "7.00"}}, [2]string{"terrace", "inside"}},
}

func restaurantNames() []string {
	names := make([]string, len(restaurants))
	for i, p := range restaurants {
		names[i] = p.Name
	}
	return names
}

func findRestaurant(name string) (*restaurant, error) {
	for i := range restaurants {
		if p := &restaurants[i]; strings.EqualFold(p.Name, strings.TrimSpace(name)) || p.Slug == name {
			return p, nil
		}
	}
	return nil, mcp.Errorf("There is no restaurant %q. There are %s.", name, strings.Join(restaurantNames(), ", "))
}

// bookingsURI is the URI of the list of bookings.
const bookingsURI = "table://bookings"

// maxBookings is the maximum number of stored bookings; a new one replaces the oldest.
const maxBookings = 1_000

// A booking is a booked table.
type booking struct {
	Confirmation string `json:"confirmation"`
	Restaurant   string `json:"restaurant"`
	Guests       int    `json:"guests"`
	Date         string `json:"date"`
	Time         string `json:"time"`
	Place        string `json:"place"`
	Name         string `json:"name,omitzero"`
	HighChair    bool   `json:"highChair,omitzero"`
}

// table is the service with its state.
type table struct {
	server *mcp.Server

	mu       sync.Mutex // guards the fields below
	last     int
	bookings []booking // oldest first
}

// bookingRequest is the input of book-table; bookingSchema describes it with examples, so that
// forms can be prefilled.
type bookingRequest struct {
	Restaurant string `json:"restaurant"`
	Guests     int    `json:"guests"`
	Time       string `json:"time,omitzero"`
}

const restaurantSchema = `"restaurant":{"type":"string","description":"the restaurant by name: Zur Linde, Blue Door or Osteria Bella","examples":["Zur Linde","Blue Door","Osteria Bella"]}`

var bookingSchema = jsonrpc.Raw(`{"type":"object","properties":{` + restaurantSchema + `,` +
	`"guests":{"type":"integer","description":"for how many","minimum":1,"maximum":12,"examples":[4]},` +
	`"time":{"type":"string","description":"when, as 2026-03-14T19:30 or 19:30; today at 19:30 if absent, when every place is full","examples":["19:30","18:00"]}},` +
	`"required":["restaurant","guests"],"additionalProperties":false}`)

// reservationSchema is the schema of book-table's result. A result without a confirmation means
// that nothing was booked.
var reservationSchema = jsonrpc.Raw(`{"type":"object","properties":{` +
	`"booked":{"type":"boolean","description":"whether a table was booked"},` +
	`"confirmation":{"type":"string","description":"the confirmation to show on arrival, and to pass to cancel-booking"},` +
	`"time":{"type":"string","description":"when the table is free, HH:MM"},` +
	`"place":{"type":"string","description":"where the table is"}},"required":["booked"],"additionalProperties":false}`)

type reservation struct {
	Booked       bool   `json:"booked"`
	Confirmation string `json:"confirmation,omitzero"`
	Time         string `json:"time,omitzero"`
	Place        string `json:"place,omitzero"`
}

func addTable(s *mcp.Server) (*table, error) {
	t := &table{server: s, last: 20_814}
	mcp.AddTool(s, mcp.Tool{
		Name:  "book-table",
		Title: "Book a table",
		Description: "Books a table in one of three restaurants. It reports progress. If the requested time is full, it asks the user which of two later tables to take, " +
			"and for a name; a client without elicitation gets the free times as an error and can call again.",
		InputSchema:  bookingSchema,
		OutputSchema: reservationSchema,
		Annotations:  &mcp.ToolAnnotations{DestructiveHint: new(false), OpenWorldHint: new(false)},
	}, t.book)
	mcp.AddTool(s, mcp.Tool{
		Name:        "list-tables",
		Title:       "Free tables",
		Description: "Lists the tables of a restaurant this evening: when, where, and whether they are free.",
		InputSchema: whereSchema,
		Annotations: readsOnly(),
	}, t.listBookings)
	mcp.AddTool(s, mcp.Tool{
		Name:        "read-menu",
		Title:       "Menu",
		Description: "Shows the menu of a restaurant, as text and as a link to its resource.",
		InputSchema: whereSchema,
		Annotations: readsOnly(),
	}, t.menu)
	mcp.AddTool(s, mcp.Tool{
		Name:        "cancel-booking",
		Title:       "Cancel a booking",
		Description: "Cancels the booking with the given confirmation.",
		Annotations: &mcp.ToolAnnotations{DestructiveHint: new(true), IdempotentHint: false, OpenWorldHint: new(false)},
	}, t.cancel)
	return t, errors.Join(
		s.AddResource(mcp.Resource{
			URI: bookingsURI, Name: "bookings", Title: "Bookings", MIMEType: "application/json",
			Description: "All booked tables. It changes with book-table and cancel-booking, and subscribers are notified.",
		}, func(_ context.Context, r *mcp.Request) (*mcp.ReadResourceResult, error) {
			return jsonResource(r, t.all())
		}),
		s.AddTemplate(mcp.ResourceTemplate{
			URITemplate: "table://menus/{restaurant}", Name: "menu", Title: "Menu", MIMEType: "text/markdown",
			Description: "The menu of one restaurant.",
		}, readMenu, map[string]mcp.CompleteFunc{"restaurant": mcp.CompleteFrom("zur-linde", "blue-door", "osteria-bella")}),
	)
}

// jsonResource returns the result for a JSON resource.
func jsonResource(r *mcp.Request, v any) (*mcp.ReadResourceResult, error) {
	text, err := json.Marshal(v, jsontext.WithIndent("  "))
	if err != nil {
		return nil, err
	}
	return mcp.TextResource(r, "application/json", string(text)), nil
}

// Durations of the simulated search steps.
const (
	searchTime = 400 * time.Millisecond
	bookTime   = 200 * time.Millisecond
)

// book implements the tool book-table. In the modern era it runs once to ask the question and again
// with the answer.
func (t *table) book(ctx context.Context, r *mcp.Request, in bookingRequest) (*mcp.ToolResult, error) {
	place, err := findRestaurant(in.Restaurant)
	if err != nil {
		return nil, err
	}
	at, err := parseTime(in.Time, time.Now())
	if err != nil {
		return nil, err
	}
	if err := r.Progress(ctx, 1, 3, "looking for a table"); err != nil {
		return nil, err
	}
	// The search runs once, not in every round.
	free, err := mcp.Once(ctx, r, "search", func(ctx context.Context) (bool, error) {
		return isFree(at), waitFor(ctx, searchTime)
	})
	if err != nil {
		return nil, err
	}
	want := booking{Restaurant: place.Name, Guests: in.Guests, Date: at.Format(time.DateOnly), Time: at.Format("15:04"), Place: place.Place[0]}
	if !free {
		if err := r.Progress(ctx, 2, 3, want.Time+" is full, asking"); err != nil {
			return nil, err
		}
		agreed, err := choose(ctx, r, place, at, &want)
		if err != nil {
			return nil, err
		}
		if !agreed {
			return structured("Nothing was booked.", reservation{})
		}
	}
	if err := waitFor(ctx, bookTime); err != nil {
		return nil, err
	}
	if err := r.Progress(ctx, 3, 3, "booked"); err != nil {
		return nil, err
	}
	done := t.addBooking(place.Code, want)
	text := fmt.Sprintf("%s, %d guests, %s, %s.", done.Restaurant, done.Guests, done.Time, done.Place)
	return structured(text, reservation{Booked: true, Confirmation: done.Confirmation, Time: done.Time, Place: done.Place})
}

// structured returns a structured result with its own text.
func structured(text string, v any) (*mcp.ToolResult, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return &mcp.ToolResult{Content: []mcp.Content{mcp.Text(text)}, Structured: raw}, nil
}

// parseTime parses the requested time.
func parseTime(text string, now time.Time) (time.Time, error) {
	if text == "" {
		text = "19:30"
	}
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05", time.RFC3339, "2006-01-02 15:04"} {
		if at, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return at, checkOpen(at)
		}
	}
	at, err := time.ParseInLocation("15:04", text, now.Location())
	if err != nil {
		return at, mcp.Errorf("%q is not a time: use 2026-03-14T19:30 or 19:30.", text)
	}
	year, month, day := now.Date()
	at = time.Date(year, month, day, at.Hour(), at.Minute(), 0, 0, now.Location())
	return at, checkOpen(at)
}

// checkOpen returns an error if the kitchens are closed.
func checkOpen(at time.Time) error {
	if h := at.Hour(); h < 17 || h > 21 {
		return mcp.Errorf("All three restaurants are open from 17:00 to 22:00; %s is outside of that.", at.Format("15:04"))
	}
	return nil
}

func isFree(at time.Time) bool {
	minute := at.Hour()*60 + at.Minute()
	return minute < 19*60 || minute >= 20*60+15
}

// choose asks the user for one of the two remaining tables, and reports whether the user selected
// one.
func choose(ctx context.Context, r *mcp.Request, place *restaurant, at time.Time, want *booking) (bool, error) {
	first, second := at.Add(45*time.Minute).Format("15:04"), at.Add(90*time.Minute).Format("15:04")
	answer, err := r.Elicit(ctx, "table", &mcp.Elicitation{
		Message:         fmt.Sprintf("%s is full. Two later tables are free for %d. Which one?", want.Time, want.Guests),
		RequestedSchema: tableForm(r.Version(), place, first, second),
	})
	// The client cannot ask its user, so the model may choose.
	if _, ok := errors.AsType[*mcp.CapabilityError](err); ok {
		return false, mcp.Errorf("%s is full. Free are %s (%s) and %s (%s): call again with one of these times.", want.Time, first, place.Place[0], second, place.Place[1])
	}
	if err != nil {
		return false, unusable(err)
	}
	var said struct {
		Time      string `json:"time"`
		Name      string `json:"name"`
		HighChair bool   `json:"highChair"`
	}
	if !answer.Accepted(&said) {
		return false, nil
	}
	want.Time, want.Name, want.HighChair = said.Time, said.Name, said.HighChair
	if said.Time == second {
		want.Place = place.Place[1]
	}
	return true, nil
}

// unusable converts an invalid answer of the user to an error that describes how to correct it. It
// returns other errors unchanged.
func unusable(err error) error {
	answer, ok := errors.AsType[*mcp.AnswerError](err)
	if !ok {
		return err
	}
	if refused, ok := errors.AsType[*jsonrpc.Error](answer.Err); ok {
		return mcp.Errorf("Nothing was booked: the question got the error response %d, %s.", refused.Code, refused.Message)
	}
	return mcp.Errorf("Nothing was booked: the answer does not match the form: %v.", answer.Err)
}

// tableForm returns the form. Titled choices are written in the format of the client's protocol
// version.
func tableForm(v mcp.Version, place *restaurant, first, second string) jsonrpc.Raw {
	choices := fmt.Sprintf(`"oneOf":[{"const":%q,"title":%q},{"const":%q,"title":%q}]`, first, first+", "+place.Place[0], second, second+", "+place.Place[1])
	if !v.HasURLElicitation() { // introduced together, in 2025-11-25
		choices = fmt.Sprintf(`"enum":[%q,%q],"enumNames":[%q,%q]`, first, second, first+", "+place.Place[0], second+", "+place.Place[1])
	}
	var standard string
	if v.HasURLElicitation() { // likewise defaults for choices
		standard = fmt.Sprintf(`,"default":%q`, first)
	}
	return jsonrpc.Raw(`{"type":"object","properties":{` +
		`"time":{"type":"string","title":"Time",` + choices + standard + `},` +
		`"name":{"type":"string","title":"Name on the booking","minLength":2,"maxLength":40},` +
		`"highChair":{"type":"boolean","title":"High chair","default":false}},"required":["time","name"]}`)
}

func (t *table) addBooking(code string, b booking) booking {
	t.mu.Lock()
	t.last++
	b.Confirmation = fmt.Sprintf("%s-%d", code, t.last)
	t.bookings = append(t.bookings, b)
	if len(t.bookings) > maxBookings {
		t.bookings = slices.Clone(t.bookings[1:])
	}
	t.mu.Unlock()
	t.server.ResourceUpdated(bookingsURI)
	return b
}

func (t *table) all() []booking {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]booking{}, t.bookings...)
}

type cancellation struct {
	Confirmation string `json:"confirmation" jsonschema:"the confirmation from book-table, such as ZL-20815"`
}

func (t *table) cancel(_ context.Context, _ *mcp.Request, in cancellation) (string, error) {
	t.mu.Lock()
	i := slices.IndexFunc(t.bookings, func(b booking) bool { return b.Confirmation == in.Confirmation })
	if i < 0 {
		t.mu.Unlock()
		return "", mcp.Errorf("There is no booking %q.", in.Confirmation)
	}
	gone := t.bookings[i]
	t.bookings = slices.Delete(t.bookings, i, i+1)
	t.mu.Unlock()
	t.server.ResourceUpdated(bookingsURI)
	return fmt.Sprintf("The table at %s, %s %s, is free again.", gone.Restaurant, gone.Date, gone.Time), nil
}

type where struct {
	Restaurant string `json:"restaurant"`
}

var whereSchema = jsonrpc.Raw(`{"type":"object","properties":{` + restaurantSchema + `},"required":["restaurant"],"additionalProperties":false}`)

// A tableState is one row of list-tables.
type tableState struct {
	Time  string `json:"time" jsonschema:"when, HH:MM"`
	Place string `json:"place" jsonschema:"where the table is"`
	Free  bool   `json:"free" jsonschema:"whether it can be booked"`
}

type evening struct {
	Restaurant string       `json:"restaurant" jsonschema:"the restaurant that was found"`
	Tables     []tableState `json:"tables" jsonschema:"by time"`
}

func (t *table) listBookings(_ context.Context, _ *mcp.Request, in where) (*evening, error) {
	place, err := findRestaurant(in.Restaurant)
	if err != nil {
		return nil, err
	}
	out := &evening{Restaurant: place.Name}
	year, month, day := time.Now().Date()
	for minute := 17 * 60; minute <= 21*60+30; minute += 45 {
		at := time.Date(year, month, day, minute/60, minute%60, 0, 0, time.Local)
		for _, spot := range place.Place {
			out.Tables = append(out.Tables, tableState{Time: at.Format("15:04"), Place: spot, Free: isFree(at)})
		}
	}
	return out, nil
}

func (t *table) menu(_ context.Context, _ *mcp.Request, in where) ([]mcp.Content, error) {
	place, err := findRestaurant(in.Restaurant)
	if err != nil {
		return nil, err
	}
	return []mcp.Content{mcp.Text(menuOf(place)), mcp.LinkTo(mcp.Resource{
		URI: "table://menus/" + place.Slug, Name: place.Slug, Title: "Menu of " + place.Name, MIMEType: "text/markdown",
	})}, nil
}

func readMenu(_ context.Context, r *mcp.Request) (*mcp.ReadResourceResult, error) {
	place, err := findRestaurant(r.Variables["restaurant"])
	if err != nil {
		return nil, mcp.NoResource()
	}
	return mcp.TextResource(r, "text/markdown", menuOf(place)), nil
}

// menuOf returns a menu as Markdown.
func menuOf(place *restaurant) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n", place.Name)
	for _, d := range place.Menu {
		fmt.Fprintf(&b, "- %s, %s €\n", d.Name, d.Price)
	}
	return b.String()
}
