package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// hasInput reports whether a stream is a pipe, or a file with content. A terminal, a socket and
// /dev/null are neither.
func hasInput(stream io.Reader) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil {
		return false
	}
	return info.Mode()&os.ModeNamedPipe != 0 || info.Mode().IsRegular() && info.Size() > 0
}

// stdinParams reads params from stdin until its end, at most for timeout, where 0 means no bound.
// If stdin is empty, there are no params. The reading goroutine ends with the process.
func (a *app) stdinParams(ctx context.Context, timeout time.Duration) (jsonrpc.Raw, error) {
	type input struct {
		content []byte
		err     error
	}
	read := make(chan input, 1)
	go func() {
		content, err := a.readInput("-")
		read <- input{content, err}
	}()
	var late <-chan time.Time
	if timeout > 0 {
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case in := <-read:
		if in.err != nil || len(bytes.TrimSpace(in.content)) == 0 {
			return nil, in.err
		}
		params, err := jsonrpc.ParseRaw(in.content)
		if err != nil {
			return nil, usagef("stdin has the params, and %q is not JSON: %v (use --ignore-stdin to call without params)", cut(string(bytes.TrimSpace(in.content)), 60), err)
		}
		return params, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-late:
		return nil, &shownError{fmt.Sprintf("stdin is a pipe that did not end within %s (--timeout); use --ignore-stdin to call without params", timeout), context.DeadlineExceeded}
	}
}
