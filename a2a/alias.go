package a2a

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// ProtoJSON readers take the original name of a field beside its camel case (Protocol Buffers, JSON mapping), and some peers send it:
// the conformance kit of A2A 1.0 does. These are the names that may stand in params, without what is the same in both.
var snakeNames = map[string]string{
	"message_id": "messageId", "context_id": "contextId", "task_id": "taskId", "reference_task_ids": "referenceTaskIds",
	"media_type": "mediaType", "accepted_output_modes": "acceptedOutputModes", "history_length": "historyLength",
	"return_immediately": "returnImmediately", "task_push_notification_config": "taskPushNotificationConfig",
	"page_size": "pageSize", "page_token": "pageToken", "status_timestamp_after": "statusTimestampAfter",
	"include_artifacts": "includeArtifacts",
}

// opaqueNames hold what belongs to others, where a name is nobody's business.
var opaqueNames = map[string]bool{"metadata": true, "data": true, "_meta": true}

// camel renames the members of params that are written in snake case.
func camel(params jsonrpc.Raw) jsonrpc.Raw {
	if bytes.IndexByte(params, '_') < 0 || !hasSnake(params) {
		return params
	}
	var out bytes.Buffer
	in := jsontext.NewDecoder(bytes.NewReader(params), jsontext.AllowDuplicateNames(true))
	to := jsontext.NewEncoder(&out, jsontext.AllowDuplicateNames(true)) // whoever decodes refuses them
	if copyCamel(to, in) != nil {
		return params // and whoever decodes says why
	}
	return bytes.TrimSpace(out.Bytes())
}

func hasSnake(params jsonrpc.Raw) bool {
	for name := range snakeNames {
		if bytes.Contains(params, []byte(`"`+name+`"`)) {
			return true
		}
	}
	return false
}

// copyCamel copies all tokens of in, which is one value.
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
