package mcp

// A Resource is data that a server offers, identified by a URI.
type Resource struct {
	URI         string       `json:"uri"`
	Name        string       `json:"name"`
	Title       string       `json:"title,omitzero"` // since 2025-06-18
	Description string       `json:"description,omitzero"`
	MIMEType    string       `json:"mimeType,omitzero"`
	Size        *int64       `json:"size,omitzero"` // bytes
	Annotations *Annotations `json:"annotations,omitzero"`
	Icons       []Icon       `json:"icons,omitzero"` // since 2025-11-25
	Meta        Meta         `json:"_meta,omitzero"`
}

// A ResourceTemplate describes many resources by a URI template (RFC 6570).
type ResourceTemplate struct {
	URITemplate string       `json:"uriTemplate"`
	Name        string       `json:"name"`
	Title       string       `json:"title,omitzero"` // since 2025-06-18
	Description string       `json:"description,omitzero"`
	MIMEType    string       `json:"mimeType,omitzero"` // if all of them have the same type
	Annotations *Annotations `json:"annotations,omitzero"`
	Icons       []Icon       `json:"icons,omitzero"` // since 2025-11-25
	Meta        Meta         `json:"_meta,omitzero"`
}

// ReadResourceParams are the params of resources/read.
type ReadResourceParams struct {
	URI  string `json:"uri"`
	Meta Meta   `json:"_meta,omitzero"`
}

// ReadResourceResult contains the contents of a resource, or of several if the URI stands for more
// than one.
type ReadResourceResult struct {
	Contents []ResourceContents `json:"contents"`
	Caching
	Meta Meta `json:"_meta,omitzero"`
}

// ListResourcesResult is one page of resources.
type ListResourcesResult struct {
	Resources  []Resource `json:"resources"`
	NextCursor *string    `json:"nextCursor,omitzero"`
	Caching
	Meta Meta `json:"_meta,omitzero"`
}

// ListResourceTemplatesResult is one page of templates.
type ListResourceTemplatesResult struct {
	ResourceTemplates []ResourceTemplate `json:"resourceTemplates"`
	NextCursor        *string            `json:"nextCursor,omitzero"`
	Caching
	Meta Meta `json:"_meta,omitzero"`
}

// SubscribeParams are the params of resources/subscribe and resources/unsubscribe.
type SubscribeParams struct {
	URI  string `json:"uri"`
	Meta Meta   `json:"_meta,omitzero"`
}

// ResourceUpdatedParams report that the contents of a resource have changed.
type ResourceUpdatedParams struct {
	URI  string `json:"uri"`
	Meta Meta   `json:"_meta,omitzero"`
}

// A Root is a folder or file that the client works on.
type Root struct {
	URI  string `json:"uri"` // file://
	Name string `json:"name,omitzero"`
	Meta Meta   `json:"_meta,omitzero"`
}

// ListRootsResult is the result of roots/list.
type ListRootsResult struct {
	Roots []Root `json:"roots"`
	Meta  Meta   `json:"_meta,omitzero"`
}
