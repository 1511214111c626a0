package demo

import (
	"context"
	"errors"
	"time"

	"github.com/da1ed7bb/parley/mcp"
)

// MCPOptions tune [NewMCP]. The zero value is ready for use.
type MCPOptions struct {
	// Weather asks a real service for forecasts. Nil computes what the sun does, and nothing else.
	Weather *WeatherService

	// Principal tells who sent a request; see [mcp.ServerOptions]. Nil: all callers are one.
	Principal func(ctx context.Context) string

	// Tasks keeps tasks. Nil: memory.
	Tasks mcp.TaskStore

	// Report gets what must not go out. Nil drops it.
	Report func(what string, err error)
}

// An MCP is the demo's services for the Model Context Protocol, with a memory of their own.
type MCP struct {
	// Server offers everything. It speaks all revisions; on which carrier is its owner's business.
	Server *mcp.Server

	table *table
}

const instructions = `This is a demonstration server; nothing it books or bakes exists.
calculator/* compute exactly. weather/get_forecast knows the sun over fifty cities, which weather://cities lists.
book-table books a table and asks the user when the wanted time is full; table://bookings shows what is booked.
kitchen/* take their time: cook reports progress, bake may run as a task. about/client describes the client that asks.`

// face is the server's icon: two speech bubbles, one for each side.
const face = "data:image/svg+xml," +
	"%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24' fill='none' stroke='%230b7285' stroke-width='2'%3E" +
	"%3Cpath d='M3 4h12v8H8l-3 3v-3H3z'/%3E%3Cpath d='M18 9h3v8h-2v3l-3-3H9v-2'/%3E%3C/svg%3E"

// listTTL is how long clients may keep lists: nothing here changes often.
const listTTL = time.Minute

// NewMCP makes the services. version is the demo's own.
func NewMCP(version string, o *MCPOptions) *MCP {
	if o == nil {
		o = &MCPOptions{}
	}
	m := &MCP{}
	m.Server = mcp.NewServer(mcp.Implementation{
		Name:        "parley-demo",
		Title:       "Parley demo",
		Version:     version,
		Description: "A calculator, the sun over fifty cities, a restaurant's tables and a kitchen: one small service for each thing MCP can do.",
		Icons:       []mcp.Icon{{Src: face, MIMEType: "image/svg+xml", Sizes: []string{"any"}}},
	}, &mcp.ServerOptions{
		Instructions: instructions,
		Principal:    o.Principal,
		CacheTTL:     listTTL,
		Tasks:        o.Tasks,
		Report:       o.Report,
	})
	report := o.Report
	if report == nil {
		report = func(string, error) {}
	}
	addCalculator(m.Server)
	addKitchen(m.Server)
	var err error
	m.table, err = addTable(m.Server)
	err = errors.Join(err, addWeather(m.Server, o.Weather, report), addAbout(m.Server), addPrompts(m.Server))
	if err != nil {
		panic("demo: " + err.Error()) // a mistake in this package, which every test would find
	}
	return m
}

// Run lets the clock tick for those who listen to it, until ctx ends.
func (m *MCP) Run(ctx context.Context) {
	ticker := time.NewTicker(tickTime)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			m.Server.ResourceUpdated(clockURI)
		case <-ctx.Done():
			return
		}
	}
}

// Close ends what runs in the background and all listening of clients.
func (m *MCP) Close() { m.Server.Close() }
