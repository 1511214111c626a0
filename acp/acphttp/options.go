package acphttp

import (
	"errors"
	"net/http"
	"time"

	"github.com/da1ed7bb/parley/internal/x/guard"
)

// Options configures a handler. The zero value accepts requests to this machine's own names only.
type Options struct {
	// Hosts lists further values that the Host header may have: "host", "host:port" or "host:*".
	// localhost, 127.0.0.1 and [::1] with the listening port are always accepted.
	Hosts []string

	// Origins lists further web origins that may call, such as "https://app.example". The origins
	// of the handler's own hosts are always accepted.
	Origins []string

	// NoDoor disables the checks of Host and Origin. Middleware must do them instead.
	NoDoor bool

	// BaseURL is the public URL of the REST binding, such as "https://agents.example/acp". It is
	// used for the URLs of messages. If empty, it is derived from the request.
	BaseURL string

	// MaxMessage bounds the body of one request, in bytes. If zero, it is 4 MiB; if negative, there
	// is no bound. A larger body gets status 413.
	MaxMessage int64

	// KeepAlive is how long a stream may be silent before a comment is sent. If zero, it is 15 s;
	// if negative, no comments are sent.
	KeepAlive time.Duration

	// WriteTimeout bounds the time in which a client takes nothing, of each 64 KiB that are written.
	// If zero, it is 10 s. After it the connection is closed.
	WriteTimeout time.Duration
}

// door adds the checks of Host and Origin to a handler.
func (o *Options) door(next http.Handler) (http.Handler, error) {
	if o.NoDoor {
		return next, nil
	}
	d, err := guard.New(&guard.Options{Hosts: o.Hosts, Origins: o.Origins})
	if err != nil {
		return nil, errors.New("acphttp: " + err.Error())
	}
	return d.Wrap(next), nil
}
