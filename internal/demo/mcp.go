package demo

import (
	"context"
	"errors"
	"time"

	"github.com/da1ed7bb/parley/mcp"
)

// MCPOptions configure [NewMCP]. The zero value is ready for use.
type MCPOptions struct {
	// Weather is the service for forecasts. If nil, forecasts contain only computed times of the
	// sun.
	Weather *WeatherService

	// Principal returns the sender of a request; see [mcp.ServerOptions]. If nil, all callers are
	// one principal.
	Principal func(ctx context.Context) string

	// Tasks stores tasks. If nil, they are stored in memory.
	Tasks mcp.TaskStore

	// Report receives errors that are not sent to clients. If nil, they are dropped.
	Report func(what string, err error)
}

// An MCP is an instance of the demo's services for the Model Context Protocol, with its own state.
type MCP struct {
	// Server serves all services. It supports all protocol versions; its owner connects it to
	// transports.
	Server *mcp.Server

	table *table
}

const instructions = `This is a demonstration server; nothing it books or bakes exists.
calculator/* compute exactly. weather/get_forecast has the sun over fifty cities, which weather://cities lists.
book-table books a table and asks the user when the wanted time is full; table://bookings shows what is booked.
kitchen/* take some time: cook reports progress, bake may run as a task. about/client describes the calling client.`

// face is the server's icon: two speech bubbles, one for each side.
const face = "data:image/svg+xml," +
	"%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24' fill='none' stroke='%230b7285' stroke-width='2'%3E" +
	"%3Cpath d='M3 4h12v8H8l-3 3v-3H3z'/%3E%3Cpath d='M18 9h3v8h-2v3l-3-3H9v-2'/%3E%3C/svg%3E"

// listTTL is how long clients may cache lists, which rarely change.
const listTTL = time.Minute

// NewMCP creates the services. version is the demo's version.
func NewMCP(version string, o *MCPOptions) *MCP {
	if o == nil {
		o = &MCPOptions{}
	}
	m := &MCP{}
	m.Server = mcp.NewServer(mcp.Implementation{
		Name:        "parley-demo",
		Title:       "Parley demo",
		Version:     version,
		Description: "A calculator, the sun over fifty cities, restaurant tables and a kitchen: one small service for each feature of MCP.",
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
		panic("demo: " + err.Error()) // a bug in this package, which every test would find
	}
	return m
}

// Run notifies the subscribers of the clock until ctx ends.
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

// Close stops background work and ends all subscriptions of clients.
func (m *MCP) Close() { m.Server.Close() }
