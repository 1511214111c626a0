package a2a

import (
	"github.com/da1ed7bb/parley/jsonrpc"
)

// The params and results of v0.3 (A2A 0.3.0, section 7).

type sendParams03 struct {
	Message       *message03       `json:"message"`
	Configuration *configuration03 `json:"configuration,omitzero"`
	Metadata      Metadata         `json:"metadata,omitempty"`
}

type configuration03 struct {
	AcceptedOutputModes []string `json:"acceptedOutputModes,omitempty"`
	// If missing, true, as in the official SDKs.
	Blocking      *bool         `json:"blocking,omitzero"`
	HistoryLength *int          `json:"historyLength,omitzero"`
	Push          *pushConfig03 `json:"pushNotificationConfig,omitzero"`
}

type pushConfig03 struct {
	ID             string            `json:"id,omitzero"`
	URL            string            `json:"url"`
	Token          string            `json:"token,omitzero"`
	Authentication *authentication03 `json:"authentication,omitzero"`
}

type authentication03 struct {
	Schemes     []string `json:"schemes"`
	Credentials string   `json:"credentials,omitzero"`
}

func pushTo03(c *PushConfig) *pushConfig03 {
	if c == nil {
		return nil
	}
	out := &pushConfig03{ID: c.ID, URL: c.URL, Token: c.Token}
	if a := c.Authentication; a != nil {
		out.Authentication = &authentication03{[]string{a.Scheme}, a.Credentials}
	}
	return out
}

func (c *pushConfig03) push(taskID string) *PushConfig {
	if c == nil {
		return nil
	}
	out := &PushConfig{TaskID: taskID, ID: c.ID, URL: c.URL, Token: c.Token}
	if a := c.Authentication; a != nil && len(a.Schemes) > 0 {
		out.Authentication = &Authentication{a.Schemes[0], a.Credentials}
	}
	return out
}

// taskPush03 holds the params of set, and the result of set and get.
type taskPush03 struct {
	TaskID string        `json:"taskId"`
	Config *pushConfig03 `json:"pushNotificationConfig"`
}

// pushParams03 holds the params of get, list and delete.
type pushParams03 struct {
	ID       string   `json:"id"`
	ConfigID string   `json:"pushNotificationConfigId,omitzero"`
	Metadata Metadata `json:"metadata,omitempty"`
}

// paramsOf03 converts the params of a v0.3 method to v1.0.
func paramsOf03(method string, raw jsonrpc.Raw) (any, error) {
	switch method {
	case MethodSend03, MethodStreamSend03:
		var in sendParams03
		if err := decodeParams(raw, &in); err != nil {
			return nil, err
		}
		out := &SendRequest{Message: in.Message.message(), Metadata: in.Metadata}
		if c := in.Configuration; c != nil {
			out.Configuration = &Configuration{AcceptedOutputModes: c.AcceptedOutputModes, HistoryLength: c.HistoryLength,
				ReturnImmediately: c.Blocking != nil && !*c.Blocking, Push: c.Push.push("")}
		}
		return out, nil
	case MethodGetTask03:
		out := new(GetTaskRequest)
		return out, decodeParams(raw, out)
	case MethodCancelTask03, MethodSubscribe03:
		out := new(TaskRequest)
		return out, decodeParams(raw, out)
	case MethodCreatePush03:
		var in taskPush03
		if err := decodeParams(raw, &in); err != nil {
			return nil, err
		}
		if in.Config == nil {
			return nil, BadParams("pushNotificationConfig", "is required")
		}
		return in.Config.push(in.TaskID), nil
	case MethodGetPush03, MethodListPush03, MethodDeletePush03:
		var in pushParams03
		err := decodeParams(raw, &in)
		return &PushRequest{TaskID: in.ID, ID: in.ConfigID}, err
	}
	return nil, nil
}

// paramsTo03 converts params of v1.0 to v0.3.
func paramsTo03(params any) any {
	switch p := params.(type) {
	case *SendRequest:
		out := &sendParams03{Message: messageTo03(p.Message), Metadata: p.Metadata}
		if c := p.Configuration; c != nil {
			out.Configuration = &configuration03{AcceptedOutputModes: c.AcceptedOutputModes, HistoryLength: c.HistoryLength,
				Blocking: new(!c.ReturnImmediately), Push: pushTo03(c.Push)}
		}
		return out
	case *PushConfig:
		return taskPush03{p.TaskID, pushTo03(p)}
	case *PushRequest:
		return pushParams03{ID: p.TaskID, ConfigID: p.ID}
	case *GetTaskRequest:
		return &GetTaskRequest{ID: p.ID, HistoryLength: p.HistoryLength}
	case *TaskRequest:
		return &TaskRequest{ID: p.ID, Metadata: p.Metadata}
	}
	return params
}

// resultTo03 converts a result of v1.0 to v0.3.
func resultTo03(result any) any {
	switch r := result.(type) {
	case Event:
		return eventTo03(r)
	case *Task:
		return taskTo03(r)
	case *PushConfig:
		return taskPush03{r.TaskID, pushTo03(r)}
	case *PushPage:
		out := make([]taskPush03, len(r.Configs))
		for i := range r.Configs {
			out[i] = taskPush03{r.Configs[i].TaskID, pushTo03(&r.Configs[i])}
		}
		return out
	case deleted:
		return nil
	case *AgentCard:
		return cardTo03(r)
	}
	return result
}

// resultOf03 converts a result of v0.3 to v1.0.
func resultOf03(raw jsonrpc.Raw, result any) error {
	switch r := result.(type) {
	case *Event:
		var err error
		*r, err = eventOf03(raw)
		return err
	case *Task:
		var in task03
		err := raw.Decode(&in)
		*r = *in.task()
		return err
	case *PushConfig:
		var in taskPush03
		err := raw.Decode(&in)
		if c := in.Config.push(in.TaskID); c != nil {
			*r = *c
		}
		return err
	case *PushPage:
		var in []taskPush03
		err := raw.Decode(&in)
		*r = PushPage{}
		for i := range in {
			if c := in[i].Config.push(in[i].TaskID); c != nil {
				r.Configs = append(r.Configs, *c)
			}
		}
		return err
	case *AgentCard:
		card, err := ParseCard(raw)
		if err == nil {
			*r = *card
		}
		return err
	case nil:
		return nil
	}
	return raw.Decode(result)
}

// deleted is the result of deleting: {} in v1.0, null in v0.3.
type deleted struct{}
