package a2a

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// snakeNames maps the original field names that may occur in params to their camel case. ProtoJSON
// parsers accept both (Protocol Buffers, JSON mapping), and some peers send the original names: the
// conformance kit of A2A 1.0 does. Names that are equal in both forms are omitted.
var snakeNames = map[string]string{
	"message_id": "messageId", "context_id": "contextId", "task_id": "taskId", "reference_task_ids": "referenceTaskIds",
	"media_type": "mediaType", "accepted_output_modes": "acceptedOutputModes", "history_length": "historyLength",
	"return_immediately": "returnImmediately", "task_push_notification_config": "taskPushNotificationConfig",
	"page_size": "pageSize", "page_token": "pageToken", "status_timestamp_after": "statusTimestampAfter",
	"include_artifacts": "includeArtifacts",
}

// opaqueNames lists members with arbitrary content, inside which no names are renamed.
var opaqueNames = map[string]bool{"metadata": true, "data": true, "_meta": true}

// camel returns params with all snake case member names renamed to camel case.
func camel(params jsonrpc.Raw) jsonrpc.Raw {
	if bytes.IndexByte(params, '_') < 0 || !hasSnake(params) {
		return params
	}
	var out bytes.Buffer
	in := jsontext.NewDecoder(bytes.NewReader(params), jsontext.AllowDuplicateNames(true))
	// the decoder rejects duplicates
	to := jsontext.NewEncoder(&out, jsontext.AllowDuplicateNames(true))
	if copyCamel(to, in) != nil {
		return params // the decoder reports the error
	}
	return bytes.TrimSpace(out.Bytes())
}

// maxSnake is the length of the longest of snakeNames.
var maxSnake = func() (n int) {
	for name := range snakeNames {
		n = max(n, len(name))
	}
	return n
}()

// hasSnake reports whether a string in params equals one of snakeNames. Its cost is linear, also
// for text that is full of underscores.
func hasSnake(params jsonrpc.Raw) bool {
	for at := 0; ; {
		i := bytes.IndexByte(params[at:], '_')
		if i < 0 {
			return false
		}
		i += at
		end := bytes.IndexByte(params[i:min(len(params), i+maxSnake)], '"')
		if end < 0 { // no name with the underscores up to there
			at = min(len(params), i+maxSnake)
			continue
		}
		end += i
		before := params[max(at, i-maxSnake):i]
		if start := bytes.LastIndexByte(before, '"'); start >= 0 {
			if _, ok := snakeNames[string(params[i-len(before)+start+1:end])]; ok {
				return true
			}
		}
		at = end
	}
}

// copyCamel copies all tokens of in, which is one value, and renames members.
func copyCamel(to *jsontext.Encoder, in *jsontext.Decoder) error {
	for {
		kind, length := in.StackIndex(in.StackDepth())
		isName := kind == '{' && length%2 == 0 && in.PeekKind() == '"'
		token, err := in.ReadToken()
		if err != nil {
			return err
		}
		name := ""
		if isName {
			name = token.String()
			if other, ok := snakeNames[name]; ok {
				token = jsontext.String(other)
			}
		}
		if err := to.WriteToken(token); err != nil {
			return err
		}
		if isName && opaqueNames[strings.Clone(name)] {
			value, err := in.ReadValue()
			if err != nil {
				return err
			}
			if err := to.WriteValue(value); err != nil {
				return err
			}
		}
		if in.StackDepth() == 0 {
			return nil
		}
	}
}
