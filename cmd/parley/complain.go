package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// complain prints an error on stderr: one line, followed by the error object of the server, if it
// sent one.
func (a *app) complain(err error) { a.complainAs(err, exitCode(err)) }

// complainAs is complain for an error with another exit code. With -o json or -o ndjson it prints
// one JSON object: error, exit and text.
func (a *app) complainAs(err error, code int) {
	if is[*silentError](err) {
		return
	}
	text := err.Error()
	theirs, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok {
		text = plainText(text)
	} else {
		if theirs.Code == jsonrpc.CodeInvalidParams {
			text += faultIn(theirs.Data)
		}
	}
	text = visible(a.secrets.Address(inOneLine(text)), 2000)
	if a.jsonErrors {
		fault := theirs
		if !ok {
			fault = &jsonrpc.Error{Message: text}
		}
		fmt.Fprintf(a.stderr, "%s\n", appendCompact(nil, errorLine(fault, ok, text, code), palette{}))
		return
	}
	fmt.Fprintf(a.stderr, "parley: %s\n", text)
	if ok {
		var p palette
		if colour, _ := a.wantsColour("auto", isTerminal(a.stderr)); colour {
			p = colours
		}
		fmt.Fprintf(a.stderr, "%s\n", appendPretty(nil, appendErrorObject(nil, theirs), p))
	}
}

// errorLine returns an error as a JSON object. remote reports whether a peer sent it.
func errorLine(fault *jsonrpc.Error, remote bool, text string, code int) jsonrpc.Raw {
	line := []byte(`{"error":`)
	if remote {
		line = appendErrorObject(line, fault)
	} else if message, err := quote(text); err == nil {
		line = append(append(append(line, `{"message":`...), message...), '}')
	} else {
		line = append(line, `{}`...)
	}
	line = fmt.Appendf(line, `,"exit":%d`, code)
	if message, err := quote(text); err == nil {
		line = append(append(line, `,"text":`...), message...)
	}
	return append(line, '}')
}

// maxLogLine is the maximum length of a line of the default loggers, in characters.
const maxLogLine = 8192

// logHandler returns the handler of slog's default logger, which is also where package log writes:
// net/http and other libraries log there, for example what a server sent without a request. Each
// line goes to stderr like an error of the command, in one line, escaped and without secrets.
func (a *app) logHandler() slog.Handler {
	return slog.NewTextHandler(logWriter{a}, &slog.HandlerOptions{ReplaceAttr: func(groups []string, attr slog.Attr) slog.Attr {
		if len(groups) == 0 && (attr.Key == slog.TimeKey || attr.Key == slog.LevelKey) {
			return slog.Attr{}
		}
		return attr
	}})
}

type logWriter struct{ app *app }

func (w logWriter) Write(line []byte) (int, error) {
	text := strings.TrimPrefix(inOneLine(string(line)), "msg=")
	if _, err := fmt.Fprintf(w.app.stderr, "parley: log: %s\n", visible(w.app.secrets.Address(text), maxLogLine)); err != nil {
		return 0, err
	}
	return len(line), nil
}

// inOneLine joins the lines of a joined error.
func inOneLine(text string) string { return strings.ReplaceAll(strings.TrimSpace(text), "\n", "; ") }

// faultIn returns where and why params were invalid, if the error data contains it.
func faultIn(data jsonrpc.Raw) (text string) {
	var fault jsonrpc.ParamFault
	if kind(data) != '{' || json.Unmarshal(data, &fault) != nil || fault.Reason == "" {
		return ""
	}
	if fault.Pointer != "" {
		text = " at " + fault.Pointer
	}
	return text + ": " + fault.Reason
}
