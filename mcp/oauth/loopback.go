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

	"github.com/da1ed7bb/parley/internal/x/outbound"
)

// Loopback takes users back from a browser on this machine (RFC 8252, section 7.3): a server on 127.0.0.1 that answers one path, to requests with
// the state it waits for, and is gone afterwards. The zero value opens the system's browser.
type Loopback struct {
	// Open shows an address to the user. It gets https addresses, and http ones of this machine, written by us. Nil is [OpenBrowser].
	Open func(ctx context.Context, address string) error

	// Path of the redirect address. "" is "/callback".
	Path string

	// Page is what the user reads at the end. "" is one sentence.
	Page string

	// Notice gets the address too, so that a program can print it: the browser may be on another screen. Nil does nothing.
	Notice func(address string)

	// Stray, if not nil, is called for each request to the redirect address that is not the one that is waited for, since its state is another
	// one: somebody else's answer, or an old tab. It may be called from many goroutines.
	Stray func(r *http.Request)
}

const (
	backTime = 5 * time.Second // for the request that brings the user back
	donePage = "You can close this window and go back to the program."
	failPage = "This did not work. The program says why."
)

// Begin listens on 127.0.0.1, on the port of one of wanted if that is free, else on any. It fits into [Code].
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
	expect := make(chan string, 1) // the state, once it is known
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
		_ = server.Serve(listener) // ends by Close
	}()
	return &Visit{
		Redirect: redirect,
		Close: func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			_ = server.Shutdown(ctx) // the page goes out first, if it can
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
				return nil, fmt.Errorf("nobody came back from the browser: %w", context.Cause(ctx))
			}
		},
	}, nil
}

// show opens the browser at an address that we have looked at and written again.
func (l *Loopback) show(ctx context.Context, address string, expect chan<- string) error {
	u, err := parseAddress(address)
	if err != nil {
		return err
	}
	if u.Scheme != "https" && !outbound.IsLoopback(u.Hostname()) || u.User != nil {
		return errors.New("no browser is opened for an address that is not https")
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

// bind listens for the user's return.
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

// receiver answers the one request that is waited for. All others are told nothing: any page can send a browser here.
func (l *Loopback) receiver(path, address string, expect <-chan string, back chan<- url.Values) http.Handler {
	_, port, _ := net.SplitHostPort(address)
	hosts := []string{address, "localhost:" + port}
	state := make(chan string, 1) // holds what came out of expect
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
				state <- want // whoever that was, we still wait
			}
			if l.Stray != nil {
				l.Stray(r)
			}
			http.Error(w, "This program waits for something else.", http.StatusBadRequest)
			return
		}
		page := l.Page
		switch {
		case query.Has("error"):
			page = failPage
		case page == "":
			page = donePage
		}
		back <- query // has room: the state is good for one request
		_, _ = w.Write([]byte(page + "\n"))
	})
}

// OpenBrowser shows an address in the user's browser, by the system's own program for that, without a shell.
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
