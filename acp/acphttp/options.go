package acphttp

import (
	"errors"
	"net/http"
	"time"

	"github.com/da1ed7bb/parley/internal/x/guard"
)

// Options tune a handler. The zero value lets in programs on this machine.
type Options struct {
	// Hosts are further names that the Host header may have: "host", "host:port" or "host:*". localhost, 127.0.0.1 and [::1] with the
	// listening port always pass.
	Hosts []string

	// Origins are further web pages that may call, such as "https://app.example". Those of the handler's own hosts always may.
	Origins []string

	// NoDoor leaves Host and Origin to somebody before the handler.
	NoDoor bool

	// BaseURL is where callers find the REST binding, such as "https://agents.example/acp": for the URLs of messages. Empty means as the
	// request at hand names it.
	BaseURL string

	// MaxMessage bounds the body of one request, in bytes. Zero means 4 MiB, negative means no bound. More is 413.
	MaxMessage int64

	// KeepAlive is how long a stream may be silent before a comment is sent. Zero means 15 s, negative means never.
	KeepAlive time.Duration

	// WriteTimeout bounds each write. Zero means 10 s. A client that does not take its bytes in that time is hung up on.
	WriteTimeout time.Duration
}

// door puts the look at Host and Origin before a handler.
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

func (o *Options) writeTimeout() time.Duration {
	if o.WriteTimeout <= 0 {
		return 10 * time.Second
	}
	return o.WriteTimeout
}
