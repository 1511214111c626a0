package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/playground"
)

// page serves the page beside the tap, which records into it. What it returns last ends the page and waits for that.
func (t *tapping) page(ctx context.Context) (*capture.Recorder, func() error, error) {
	a := t.app
	redaction, err := t.flags.hide.redaction(a.getenv)
	if err != nil {
		return nil, nil, err
	}
	none, err := a.upFile("")
	if err != nil {
		return nil, nil, err
	}
	bound, err := bindPage(ctx, "")
	if err != nil {
		return nil, nil, err
	}
	o := &playground.Options{
		Tap:     &playground.Tap{Server: strings.Join(a.argv, " "), File: t.flags.record},
		Configs: none,
		Judges:  judges,
		Version: thisBuild().Version,
		Log:     none.say,
	}
	if !a.hasArgv {
		o.Tap.Server, o.Tap.At = t.server.String(), t.at.String()
	}
	o.Recording = capture.Options{File: t.flags.record, Redact: redaction}
	page, err := playground.New(o)
	if err != nil {
		_ = bound.Close() // err says why
		return nil, nil, recordError(t.flags.record, err)
	}
	fmt.Fprintf(a.stderr, "parley: what passes is shown at http://%s/#token=%s\n", bound.Addr(), page.Token())

	serving, stop := context.WithCancel(context.WithoutCancel(ctx)) // as long as the tap
	ended := make(chan error, 1)
	go func() { ended <- a.servePage(serving, page, bound, none, nil, &reporter{w: a.stderr}) }()
	return page.Recorder(), func() error {
		stop()
		return <-ended
	}, nil
}
