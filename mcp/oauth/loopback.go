package oauth

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/da1ed7bb/parley/internal/x/guard"
	"github.com/da1ed7bb/parley/internal/x/outbound"
)

// Loopback receives the redirect from a browser on this machine (RFC 8252, section 7.3). It runs a
// server on 127.0.0.1 that responds on one path to the request with the expected state, and then
// stops. The zero value opens the system's browser.
type Loopback struct {
	// Open shows an address to the user. The address is an https address, or an http address of
	// this machine, and has been normalized. If nil, [OpenBrowser] is used.
	Open func(ctx context.Context, address string) error

	// Path is the path of the redirect address. If empty, it is "/callback".
	Path string

	// Page is the page that the user sees at the end. If empty, it is one sentence.
	Page string

	// Notice is also called with the address, so that a program can print it: the browser may be on
	// another screen. If nil, it is not called.
	Notice func(address string)

	// Stray, if not nil, is called for each request to the redirect address with an unexpected
	// state, such as a response for another program or from an old tab. It may be called
	// concurrently.
	Stray func(r *http.Request)
}

const (
	backTime = 5 * time.Second // for the redirect request
	donePage = "You can close this window and return to the program."
	failPage = "The login failed. The program shows the reason."
)

// Begin listens on 127.0.0.1, on the port of one of wanted if it is free, otherwise on any port. It
// can be used as [Code] Begin.
func (l *Loopback) Begin(ctx context.Context, wanted []string) (*Visit, error) {
	path := l.Path
	if path == "" {
		path = "/callback"
	}
	listener, redirect, err := bind(ctx, path, wanted)
	if err != nil {
		return nil, err
	}
	back := make(chan url.Values, 1)
	expect := make(chan string, 1) // the state, when known
	server := &http.Server{
		ReadHeaderTimeout: backTime,
		ReadTimeout:       backTime,
		WriteTimeout:      backTime,
		MaxHeaderBytes:    32 << 10,
	}
	server.Handler = l.receiver(path, listener.Addr().String(), expect, back)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener) // ends with Close
	}()
	return &Visit{
		Redirect: redirect,
		Close: func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			_ = server.Shutdown(ctx) // lets the page be sent first
			_ = server.Close()
			<-served
		},
		Go: func(ctx context.Context, address string) (url.Values, error) {
			if err := l.show(ctx, address, expect); err != nil {
				return nil, err
			}
			select {
			case query := <-back:
				return query, nil
			case <-ctx.Done():
				return nil, fmt.Errorf("the browser did not return: %w", context.Cause(ctx))
			}
		},
	}, nil
}

// show opens the browser at an address after checking and normalizing it.
func (l *Loopback) show(ctx context.Context, address string, expect chan<- string) error {
	u, err := parseAddress(address)
	if err != nil {
		return err
	}
	if u.Scheme != "https" && !outbound.IsLoopback(u.Hostname()) || u.User != nil {
		return errors.New("the browser is not opened for an address that is not https")
	}
	expect <- u.Query().Get("state")
	address = u.String()
	if l.Notice != nil {
		l.Notice(address)
	}
	open := l.Open
	if open == nil {
		open = OpenBrowser
	}
	if err := open(ctx, address); err != nil && l.Notice == nil {
		return fmt.Errorf("open the browser: %w", err)
	}
	return nil
}

// bind listens for the redirect.
func bind(ctx context.Context, path string, wanted []string) (net.Listener, string, error) {
	var config net.ListenConfig
	for _, redirect := range wanted {
		u, err := url.Parse(redirect)
		if err != nil || u.Scheme != "http" || u.Path != path || u.Port() == "" || !outbound.IsLoopback(u.Hostname()) || u.RawQuery != "" {
			continue
		}
		if listener, err := config.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", u.Port())); err == nil {
			return listener, redirect, nil
		}
	}
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	return listener, "http://" + listener.Addr().String() + path, nil
}

// receiver responds to the one expected request. All other requests get no information: any page
// can send a browser here.
func (l *Loopback) receiver(path, address string, expect <-chan string, back chan<- url.Values) http.Handler {
	_, port, _ := net.SplitHostPort(address)
	hosts := []string{address, "localhost:" + port}
	state := make(chan string, 1) // holds the value received from expect
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		guard.EndAfterChunked(w, r)
		h := w.Header()
		h.Set("Content-Type", "text/plain; charset=utf-8")
		h.Set("Cache-Control", "no-store")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", "default-src 'none'")
		if r.URL.Path != path || r.Method != http.MethodGet || !strings.EqualFold(r.Host, hosts[0]) && !strings.EqualFold(r.Host, hosts[1]) {
			http.NotFound(w, r)
			return
		}
		query, err := url.ParseQuery(r.URL.RawQuery)
		var want string
		select {
		case want = <-expect:
		case want = <-state:
		default:
		}
		if want == "" || err != nil || query.Get("state") != want {
			if want != "" {
				state <- want // not the expected request; continue waiting
			}
			if l.Stray != nil {
				l.Stray(r)
			}
			http.Error(w, "The program is not waiting for this.", http.StatusBadRequest)
			return
		}
		page := l.Page
		switch {
		case query.Has("error"):
			page = failPage
		case page == "":
			page = donePage
		}
		back <- query // never blocks: the state is valid for one request
		_, _ = w.Write([]byte(page + "\n"))
	})
}

// OpenBrowser opens an address in the user's browser with the system's program for that, without a
// shell.
func OpenBrowser(ctx context.Context, address string) error {
	var argv []string
	switch runtime.GOOS {
	case "darwin":
		argv = []string{"open", address}
	case "windows":
		argv = []string{"rundll32", "url.dll,FileProtocolHandler", address}
	default:
		argv = []string{"xdg-open", address}
	}
	if !strings.HasPrefix(address, "https://") && !strings.HasPrefix(address, "http://") {
		return errors.New("oauth: not an address for a browser")
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return exec.CommandContext(ctx, argv[0], argv[1:]...).Run()
}
