package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/mcp/mcphttp"
	"github.com/da1ed7bb/parley/mcp/oauth"
	"github.com/da1ed7bb/parley/transport/httprpc"
	"github.com/da1ed7bb/parley/transport/stdio"
	"github.com/da1ed7bb/parley/transport/websocket"
)

// Exit codes of the command. Scripts depend on these numbers.
const (
	exitOK        = 0
	exitRPC       = 1   // the peer sent an error response
	exitUsage     = 2   // invalid command line
	exitAuth      = 3   // credentials are missing, wrong or insufficient
	exitAway      = 4   // connection refused, not found, timeout, or address in use
	exitTool      = 5   // an MCP tool failed
	exitProtocol  = 6   // the peer violates JSON-RPC
	exitCancelled = 130 // Ctrl-C, the code that shells use
)

// A usageError is an invalid command line.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// A silentError sets the exit code. Its cause was reported before.
type silentError struct{ code int }

func (e *silentError) Error() string { return fmt.Sprintf("exit %d", e.code) }

var errInterrupted = errors.New("interrupted")

// exitCode maps an error to an exit code.
func exitCode(err error) int {
	switch {
	case err == nil:
		return exitOK
	case is[*silentError](err):
		e, _ := errors.AsType[*silentError](err)
		return e.code
	case errors.Is(err, errInterrupted), errors.Is(err, context.Canceled):
		return exitCancelled
	case is[*placeError](err):
		return exitAway
	case is[*jsonrpc.Error](err):
		if errors.Is(err, &jsonrpc.Error{Code: jsonrpc.CodeUnauthorized}) {
			return exitAuth
		}
		return exitRPC
	case is[*usageError](err), is[*parley.TargetError](err), is[*parley.RefusedError](err):
		return exitUsage
	case isAuth(err):
		return exitAuth
	case isProtocol(err):
		return exitProtocol
	case isAway(err):
		return exitAway
	}
	return exitRPC
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// status returns the HTTP status of a server that sent no JSON-RPC, or 0 for other errors.
func status(err error) int {
	if e, ok := errors.AsType[*httprpc.StatusError](err); ok {
		return e.Status
	}
	if e, ok := errors.AsType[*websocket.HandshakeError](err); ok {
		return e.Status
	}
	if e, ok := errors.AsType[*mcphttp.StatusError](err); ok {
		return e.Status
	}
	return 0
}

func isAuth(err error) bool {
	s := status(err)
	return s == http.StatusUnauthorized || s == http.StatusForbidden || is[*oauth.Error](err)
}

func isProtocol(err error) bool {
	if s := status(err); s != 0 && s < 500 && !isMissing(s) && s != http.StatusRequestTimeout && s != http.StatusTooManyRequests {
		return true
	}
	return errors.Is(err, jsonrpc.ErrBadResponse) || errors.Is(err, jsonrpc.ErrGarbage) ||
		errors.Is(err, mcp.ErrUnknownResult) || errors.Is(err, mcp.ErrResultSchema) || errors.Is(err, mcp.ErrTooManyRounds) ||
		errors.Is(err, mcp.ErrNoCommonVersion) || errors.Is(err, jsonrpc.ErrTooLarge) || is[*jsonrpc.FrameError](err)
}

func isAway(err error) bool {
	return status(err) != 0 || errors.Is(err, errNothing) || is[*dialError](err) || errors.Is(err, mcp.ErrListenEnded) || errors.Is(err, jsonrpc.ErrClosed) ||
		isLate(err) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, parley.ErrAddressInUse) || is[net.Error](err) || is[*tls.CertificateVerificationError](err) ||
		is[*stdio.ExitError](err) || is[syscall.Errno](err)
}

// isLate reports whether err means that --timeout was reached. A dial that runs until the deadline
// of its context ends with the error of the context or with that of the socket, whichever comes
// first.
func isLate(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}

// A dialError reports a server that could not be reached.
type dialError struct {
	target parley.Target
	err    error
}

// Error returns the address and the reason once. The errors of transports repeat the address, so
// for system errors only the reason is used.
func (e *dialError) Error() string {
	reason := e.err.Error()
	if errno, ok := errors.AsType[syscall.Errno](e.err); ok {
		reason = errno.Error()
	} else if dns, ok := errors.AsType[*net.DNSError](e.err); ok {
		reason = dns.Err
	} else if e.target.Scheme == "exec" || status(e.err) != 0 || is[*parley.TargetError](e.err) || is[*jsonrpc.Error](e.err) {
		return reason
	} else if isLate(e.err) {
		reason = "timeout"
	}
	if e.target.Scheme == "exec" {
		return "start " + e.target.Argv[0] + ": " + reason
	}
	return "cannot reach " + e.target.String() + ": " + reason
}

func (e *dialError) Unwrap() error { return e.err }
