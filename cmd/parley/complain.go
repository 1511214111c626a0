package main

import (
	"errors"
	"fmt"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// complain tells an error on stderr: one line, and below it the error object that the server sent, if it did.
func (a *app) complain(err error) {
	if is[*silentError](err) {
		return
	}
	text := err.Error()
	theirs, ok := errors.AsType[*jsonrpc.Error](err)
	if ok {
		if pointer := pointerIn(theirs.Data); pointer != "" {
			text += " at " + pointer
		}
	}
	fmt.Fprintf(a.stderr, "parley: %s\n", visible(text, 2000))
	if ok {
		var p palette
		if colour, _ := a.wantsColour("auto", isTerminal(a.stderr)); colour {
			p = colours
		}
		fmt.Fprintf(a.stderr, "%s\n", appendPretty(nil, appendErrorObject(nil, theirs), p))
	}
}

// pointerIn is the place that an error about params points at, if it does.
func pointerIn(data jsonrpc.Raw) string {
	var place struct {
		Pointer string `json:"pointer"`
	}
	if kind(data) != '{' || data.Decode(&place) != nil {
		return ""
	}
	return place.Pointer
}
