package main

import (
	"context"
	"fmt"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/internal/lessons"
	"github.com/da1ed7bb/parley/playground"
)

// tapPage serves the page beside a tap, which records into it. What it returns last ends the page and waits for that.
func (a *app) tapPage(ctx context.Context, flags tapFlags) (*capture.Recorder, func() error, error) {
	redaction, err := flags.hide.redaction(a.getenv)
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
		Lessons: lessons.All(),
		Configs: none,
		Judges:  judges,
		Version: thisBuild().Version,
		Log:     none.say,
	}
	o.Recording = capture.Options{File: flags.record, Redact: redaction}
	page, err := playground.New(o)
	if err != nil {
		_ = bound.Close() // err says why
		return nil, nil, usagef("%v", err)
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
