package main

import (
	"encoding/json"
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
		if theirs.Code == jsonrpc.CodeInvalidParams {
			text += faultIn(theirs.Data)
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

// faultIn is where params did not fit and why, if the data of an error tells.
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
