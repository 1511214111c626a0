package a2ahttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/internal/x/origin"
	"github.com/da1ed7bb/parley/internal/x/outbound"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/httprpc"
)

// NewClient returns a client of the JSON-RPC binding at address. It detects the protocol version of
// the agent. It starts nothing.
func NewClient(address string, o *Options) *a2a.Client {
	options := settled(o)
	return a2a.NewClient(newLink(address, &options, nil), &options.ClientOptions)
}

// settled returns a copy with the settings that apply to HTTP.
func settled(o *Options) Options {
	var out Options
	if o != nil {
		out = *o
	}
	out.Beside = true
	if out.Resume == 0 {
		out.Resume = defaultResume
	}
	return out
}

// Dial fetches the card of the agent at base and returns a client of the best interface in the
// card: v1.0 before v0.3, and within a version in the order of Options.Bindings. base is the URL of
// the card, a URL to which the well-known path is appended, or the agent's own URL.
func Dial(ctx context.Context, base string, o *Options) (*a2a.Client, *a2a.AgentCard, error) {
	options := settled(o)
	card, at, err := fetchCard(ctx, base, &options)
	if err != nil {
		return nil, nil, err
	}
	in, v, err := choose(card, &options)
	if err != nil {
		return nil, card, err
	}
	to, err := at.Parse(in.URL)
	if err != nil {
		return nil, card, fmt.Errorf("a2ahttp: the card's interface: %w", err)
	}
	var client *http.Client
	if !origin.Same(to, at) && !options.Anywhere {
		if client, err = stranger(to, at); err != nil {
			return nil, card, err
		}
		options.Token, options.Header = "", nil
	}
	options.NoStream = options.NoStream || !card.Capabilities.Streaming
	if options.Tenant == "" {
		options.Tenant = in.Tenant
	}
	if options.Version == 0 && v == a2a.V03 {
		options.Version = a2a.V03
	}
	l := newLink(to.String(), &options, client)
	if in.ProtocolBinding == a2a.BindingREST {
		options.Version = a2a.V10
		return a2a.NewClient(restLink{l}, &options.ClientOptions), card, nil
	}
	return a2a.NewClient(l, &options.ClientOptions), card, nil
}

// stranger returns the HTTP client for an address that only the card named. It does not reach
// internal addresses, except the host that was dialled.
func stranger(to, at *url.URL) (*http.Client, error) {
	policy := new(outbound.Policy)
	policy.Allow(at)
	if err := policy.Check(to); err != nil {
		return nil, fmt.Errorf("a2ahttp: the card's interface: %w", err)
	}
	client := policy.Client()
	client.Timeout = 0 // streams may last; calls have their own timeout
	return client, nil
}

// choose selects the interface to use.
func choose(card *a2a.AgentCard, o *Options) (*a2a.AgentInterface, a2a.Version, error) {
	bindings := o.Bindings
	if bindings == nil {
		bindings = []string{a2a.BindingJSONRPC, a2a.BindingREST}
	}
	for _, v := range a2a.Versions() {
		if o.Version != 0 && o.Version != v {
			continue
		}
		for _, binding := range bindings {
			if binding == a2a.BindingREST && v != a2a.V10 {
				continue // a different dialect, which is not supported
			}
			if in := card.Interface(v, binding); in != nil {
				return in, v, nil
			}
		}
	}
	var offered []string
	for _, in := range card.SupportedInterfaces {
		offered = append(offered, in.ProtocolBinding+" "+in.ProtocolVersion)
	}
	return nil, 0, fmt.Errorf("a2ahttp: the agent offers no supported interface: %s", strings.Join(offered, ", "))
}

// FetchCard returns the card of the agent at base, as [Dial] does.
func FetchCard(ctx context.Context, base string, o *Options) (*a2a.AgentCard, error) {
	options := settled(o)
	card, _, err := fetchCard(ctx, base, &options)
	return card, err
}

func fetchCard(ctx context.Context, base string, o *Options) (card *a2a.AgentCard, at *url.URL, err error) {
	at, err = origin.Parse(base)
	if err != nil {
		return nil, nil, fmt.Errorf("a2ahttp: %w", err)
	}
	l := newLink(base, o, nil)
	defer l.Close()
	ctx = a2a.WithService(ctx, a2a.Service{Version: a2a.V10.String()})
	var first error
	for _, place := range places(at) {
		if card, err = l.card(ctx, place); err == nil {
			return card, at, nil
		}
		if first == nil {
			first = err
		}
		if status, ok := errors.AsType[*StatusError](err); !ok || status.Status != http.StatusNotFound && status.Status != http.StatusMethodNotAllowed {
			break // the error is not about the location
		}
	}
	return nil, nil, first
}

// places returns the URLs where the card may be, most likely first.
func places(base *url.URL) []*url.URL {
	if strings.HasSuffix(base.Path, ".json") {
		return []*url.URL{base}
	}
	var out []*url.URL
	add := func(path string) {
		u := *base
		u.Path, u.RawPath, u.RawQuery, u.Fragment = path, "", "", ""
		for _, one := range out {
			if one.Path == u.Path {
				return
			}
		}
		out = append(out, &u)
	}
	folder := strings.TrimSuffix(base.Path, "/")
	add(folder + CardPath)
	add(CardPath)
	add(OldCardPath)
	return out
}

// card fetches the card from one URL.
func (l *link) card(ctx context.Context, at *url.URL) (*a2a.AgentCard, error) {
	ctx, end, err := l.begin(ctx, false)
	if err != nil {
		return nil, err
	}
	defer end(nil)
	answer, err := l.http.Do(l.request(ctx, http.MethodGet, at, nil, "application/json"))
	if err != nil {
		return nil, failed(ctx, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, httprpc.NewStatusError(answer)
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, outbound.MaxBody+1))
	switch {
	case err != nil:
		return nil, failed(ctx, err)
	case len(text) > outbound.MaxBody:
		return nil, fmt.Errorf("a2ahttp: the card: %w", jsonrpc.ErrTooLarge)
	}
	card, err := a2a.ParseCard(text)
	if err != nil {
		return nil, fmt.Errorf("a2ahttp: the card: %w", err)
	}
	return card, nil
}
