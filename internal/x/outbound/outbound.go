// Package outbound sends HTTP requests to addresses that a peer supplies: for metadata, keys,
// cards, icons, webhooks.
//
// Such an address may lead to a service that only we can reach: on this machine, in our network, or
// a cloud's metadata service. Therefore only https is allowed, and the IP address is checked on the
// socket that is dialled, after the name was resolved: a name that changes its address in between
// gains nothing. Proxies of the environment are not used, because they resolve names themselves.
// Addresses that the operator has configured are exempt; they belong in a [Policy].
package outbound

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	// MaxBody is the maximum length of a response body in [Do], in bytes.
	MaxBody = 1 << 20

	dialTime     = 5 * time.Second
	totalTime    = 10 * time.Second
	maxRedirects = 3
	maxHeader    = 32 << 10
)

// ErrForbidden is returned for requests to addresses that a peer must not reach through us.
var ErrForbidden = errors.New("outbound: this address must not be reached at a peer's request")

// ErrTooLarge is returned by [Do] for a body longer than [MaxBody].
var ErrTooLarge = errors.New("outbound: the response is too large")

// A Policy defines what may be reached besides public addresses by https. The zero value adds
// nothing.
type Policy struct {
	// Hosts lists names and addresses that the operator has configured, in lower case, without
	// port. They are allowed regardless of their IP address. Plain lists those that may also be
	// reached by http.
	Hosts, Plain []string

	// Loopback allows "localhost" and the literal loopback addresses, also by http. It is for
	// operators who configured a loopback address themselves.
	Loopback bool
}

// Check reports whether an address is allowed by its text. The socket is checked separately.
func (p *Policy) Check(u *url.URL) error {
	host := strings.ToLower(u.Hostname())
	switch {
	case host == "":
		return fmt.Errorf("%w: an address without a host", ErrForbidden)
	case u.User != nil:
		return fmt.Errorf("%w: an address with a password in it", ErrForbidden)
	case u.Scheme == "https":
	case u.Scheme == "http" && (slices.Contains(p.Plain, host) || p.Loopback && IsLoopback(host)):
	default:
		return fmt.Errorf("%w: %q is not https", ErrForbidden, u.Scheme)
	}
	if ip, err := netip.ParseAddr(host); err == nil && !p.isFree(host) && !IsPublic(ip) {
		return fmt.Errorf("%w: %v", ErrForbidden, ip)
	}
	return nil
}

// isFree reports whether the operator has allowed a host regardless of its IP address.
func (p *Policy) isFree(host string) bool {
	return p.typed(host) || p.Loopback && IsLoopback(host)
}

func (p *Policy) typed(host string) bool {
	return slices.Contains(p.Hosts, host) || slices.Contains(p.Plain, host)
}

// Allow adds the host of an address that the operator has configured, with http if its scheme is
// http. If the host is a loopback address, it also allows the loopback addresses.
func (p *Policy) Allow(u *url.URL) {
	host := strings.ToLower(u.Hostname())
	if u.Scheme == "http" {
		p.Plain = append(p.Plain, host)
	} else {
		p.Hosts = append(p.Hosts, host)
	}
	p.Loopback = p.Loopback || IsLoopback(host)
}

// IsLoopback reports whether the text of a host denotes this machine: localhost, 127.0.0.0/8, ::1.
func IsLoopback(host string) bool {
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || err == nil && ip.Unmap().IsLoopback()
}

// Client returns a client with the policy and its own transport: 5 s to connect, 10 s in total, at
// most 3 redirects, each checked. Redirects are followed only for GET and HEAD; for other methods
// the redirect itself is the response. The client stores no cookies. Its connections are closed by
// [http.Client.CloseIdleConnections].
func (p *Policy) Client() *http.Client {
	policy := Policy{Hosts: slices.Clone(p.Hosts), Plain: slices.Clone(p.Plain), Loopback: p.Loopback}
	return &http.Client{
		Timeout: totalTime,
		Transport: &checked{policy: &policy, base: &http.Transport{
			DialContext:            policy.dial,
			TLSHandshakeTimeout:    dialTime,
			ResponseHeaderTimeout:  totalTime,
			IdleConnTimeout:        30 * time.Second,
			MaxIdleConnsPerHost:    2,
			MaxResponseHeaderBytes: maxHeader,
			DisableCompression:     true, // a small compressed body may be large
			ForceAttemptHTTP2:      true,
		}},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if first := via[0].Method; first != http.MethodGet && first != http.MethodHead {
				return http.ErrUseLastResponse
			}
			if len(via) > maxRedirects {
				return fmt.Errorf("outbound: more than %d redirects", maxRedirects)
			}
			from := via[len(via)-1].URL
			if from.Scheme != r.URL.Scheme || from.Host != r.URL.Host {
				// Credentials are only for the original address.
				r.Header = http.Header{"Accept": r.Header["Accept"]}
			}
			return policy.Check(r.URL)
		},
	}
}

// checked checks each request before a connection is made for it.
type checked struct {
	policy *Policy
	base   *http.Transport
}

func (c *checked) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := c.policy.Check(r.URL); err != nil {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, err
	}
	return c.base.RoundTrip(r)
}

func (c *checked) CloseIdleConnections() { c.base.CloseIdleConnections() }

// dial connects to one of the addresses of a name, if it is public.
func (p *Policy) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTime, KeepAlive: 15 * time.Second}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	host = strings.ToLower(host)
	free := p.typed(host)
	local := p.Loopback && IsLoopback(host)
	d.Control = func(_, socket string, _ syscall.RawConn) error {
		ap, err := netip.ParseAddrPort(socket)
		if err != nil {
			return fmt.Errorf("%w: %q", ErrForbidden, socket)
		}
		ip := ap.Addr().Unmap()
		if free || local && ip.IsLoopback() || !local && IsPublic(ip) {
			return nil
		}
		return fmt.Errorf("%w: %v", ErrForbidden, ip)
	}
	return d.DialContext(ctx, network, address)
}

// special are the ranges that are not public unicast addresses, in addition to those of package
// netip (IANA special-purpose address registries).
var special = prefixes(
	"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24",
	"203.0.113.0/24", "240.0.0.0/4",
	"::/96", "100::/64", "2001::/23", "2001:db8::/32", "3fff::/20", "5f00::/16", "fec0::/10",
)

// translated are ranges whose last 32 bits are an IPv4 address that a gateway extracts: NAT64 (RFC
// 6052, RFC 8215).
var translated = prefixes("64:ff9b::/96", "64:ff9b:1::/48")

var sixToFour = netip.MustParsePrefix("2002::/16") // bits 16 to 47 are the IPv4 address (RFC 3056)

func prefixes(texts ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, text := range texts {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

// IsPublic reports whether an address belongs to the public internet. It is false for addresses of
// this machine, of private and shared networks (RFC 6598), for link-local, multicast and
// documentation addresses, and for addresses that embed such an IPv4 address.
func IsPublic(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	if !ip.IsGlobalUnicast() || ip.IsPrivate() {
		return false
	}
	in := func(p netip.Prefix) bool { return p.Contains(ip) }
	switch {
	case slices.ContainsFunc(special, in):
		return false
	case slices.ContainsFunc(translated, in):
		b := ip.As16()
		return IsPublic(netip.AddrFrom4([4]byte(b[12:16])))
	case sixToFour.Contains(ip):
		b := ip.As16()
		return IsPublic(netip.AddrFrom4([4]byte(b[2:6])))
	}
	return true
}

// An Answer is a complete response.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Do sends r and reads the response, with a body of at most [MaxBody]. Its errors do not contain
// the address, because the query may contain secrets.
func Do(c *http.Client, r *http.Request) (*Answer, error) {
	resp, err := c.Do(r)
	if err != nil {
		return nil, plain(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, MaxBody+1))
	if err != nil {
		return nil, plain(err)
	}
	if len(body) > MaxBody {
		return nil, ErrTooLarge
	}
	return &Answer{resp.StatusCode, resp.Header, body}, nil
}

// plain removes the address from an error of net/http.
func plain(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}
