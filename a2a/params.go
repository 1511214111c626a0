package a2a

// A SendRequest are the params of [MethodSend] and [MethodStreamSend] (A2A 1.0.1, section 3.2.1).
type SendRequest struct {
	Message       *Message       `json:"message"`
	Configuration *Configuration `json:"configuration,omitzero"`
	Metadata      Metadata       `json:"metadata,omitempty"`
	Tenant        string         `json:"tenant,omitzero"`
}

// A Configuration says how a message is to be answered (A2A 1.0.1, section 3.2.2).
type Configuration struct {
	AcceptedOutputModes []string    `json:"acceptedOutputModes,omitempty"`
	Push                *PushConfig `json:"taskPushNotificationConfig,omitzero"`
	HistoryLength       *int        `json:"historyLength,omitzero"` // of the task in the answer; nil for all, 0 for none
	ReturnImmediately   bool        `json:"returnImmediately,omitzero"`
}

// A GetTaskRequest are the params of [MethodGetTask].
type GetTaskRequest struct {
	ID            string `json:"id"`
	HistoryLength *int   `json:"historyLength,omitzero"` // nil for all, 0 for none
	Tenant        string `json:"tenant,omitzero"`
}

// A ListTasksRequest are the params of [MethodListTasks] (A2A 1.0.1, section 3.1.4). All members are optional and narrow the list.
type ListTasksRequest struct {
	ContextID            string    `json:"contextId,omitzero"`
	Status               TaskState `json:"status,omitzero"`
	PageSize             *int      `json:"pageSize,omitzero"` // 1 to 100; nil means 50
	PageToken            string    `json:"pageToken,omitzero"`
	HistoryLength        *int      `json:"historyLength,omitzero"` // nil and 0 for none
	StatusTimestampAfter Timestamp `json:"statusTimestampAfter,omitzero"`
	IncludeArtifacts     bool      `json:"includeArtifacts,omitzero"`
	Tenant               string    `json:"tenant,omitzero"`
}

// A TaskPage is one page of a list, most recent status first.
type TaskPage struct {
	Tasks         []Task `json:"tasks"`
	NextPageToken string `json:"nextPageToken"` // "" at the end
	PageSize      int    `json:"pageSize"`
	TotalSize     int    `json:"totalSize"` // of all pages
}

// A TaskRequest are the params of [MethodCancelTask] and [MethodSubscribe].
type TaskRequest struct {
	ID       string   `json:"id"`
	Metadata Metadata `json:"metadata,omitempty"` // of a cancel
	Tenant   string   `json:"tenant,omitzero"`
}

// A PushConfig says where the events of a task are posted to (A2A 1.0.1, section 4.3.1). It is also the params of [MethodCreatePush].
type PushConfig struct {
	TaskID         string          `json:"taskId,omitzero"`
	ID             string          `json:"id,omitzero"` // made by the server if empty
	URL            string          `json:"url"`
	Token          string          `json:"token,omitzero"` // sent along, for the receiver to recognise
	Authentication *Authentication `json:"authentication,omitzero"`
	Tenant         string          `json:"tenant,omitzero"`
}

// An Authentication is what goes into the Authorization header of a notification.
type Authentication struct {
	Scheme      string `json:"scheme"` // such as "Bearer"
	Credentials string `json:"credentials,omitzero"`
}

// A PushRequest are the params of [MethodGetPush], [MethodDeletePush], and without ID of [MethodListPush].
type PushRequest struct {
	TaskID    string `json:"taskId"`
	ID        string `json:"id,omitzero"`
	PageSize  int    `json:"pageSize,omitzero"`
	PageToken string `json:"pageToken,omitzero"`
	Tenant    string `json:"tenant,omitzero"`
}

// A PushPage is the result of [MethodListPush].
type PushPage struct {
	Configs       []PushConfig `json:"configs"`
	NextPageToken string       `json:"nextPageToken"`
}

// check returns what is wrong with a message that came in, or nil.
func (r *SendRequest) check() error {
	m := r.Message
	switch {
	case m == nil:
		return BadParams("message", "is required")
	case m.MessageID == "":
		return BadParams("message.messageId", "is required")
	case m.Role == "":
		return BadParams("message.role", "is required")
	case m.Role != RoleUser:
		return BadParams("message.role", "must be ROLE_USER")
	case len(m.Parts) == 0:
		return BadParams("message.parts", "must have at least one part")
	}
	if c := r.Configuration; c != nil && c.HistoryLength != nil && *c.HistoryLength < 0 {
		return BadParams("configuration.historyLength", "must not be negative")
	}
	return nil
}
