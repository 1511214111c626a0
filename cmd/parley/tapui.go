package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/playground"
)

// page serves the page of the tap and returns its recorder. The returned function closes the page
// and waits for it.
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
		Tap:     &playground.Tap{Server: a.secrets.Address(strings.Join(t.program.Argv, " ")), File: t.flags.record},
		Configs: none,
		Judges:  judges,
		Version: thisBuild().Version,
		Log:     none.log,
	}
	if !t.runs() {
		o.Tap.Server, o.Tap.At = t.server.String(), t.at.String()
	}
	o.Recording = capture.Options{File: t.flags.record, MaxDisk: t.maxDisk(), Redact: redaction}
	page, err := playground.New(o)
	if err != nil && t.own {
		t.noFile(err)
		o.Tap.File, o.Recording.File = "", ""
		page, err = playground.New(o)
	}
	if err != nil {
		_ = bound.Close() // err is returned
		return nil, nil, recordError(t.flags.record, err)
	}
	a.hideIn(page.Recorder())
	if !t.own {
		a.tellName("--record", t.flags.record, page.Recorder())
	}
	fmt.Fprintf(a.stderr, "parley: the traffic is shown at http://%s/#token=%s\n", bound.Addr(), page.Token())

	serving, stop := context.WithCancel(context.WithoutCancel(ctx)) // lives as long as the tap
	ended := make(chan error, 1)
	shown := &servedPage{page: page, bound: bound, file: none, reports: &reporter{w: a.stderr}}
	go func() { ended <- shown.serve(serving) }()
	return page.Recorder(), func() error {
		stop()
		return <-ended
	}, nil
}
