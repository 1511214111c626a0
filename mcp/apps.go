package mcp

// This file implements MCP Apps: a tool may have a user interface, an HTML page that a host shows
// in a sandbox (MCP Apps 2026-01-26). The page is a resource. Everything else happens between the
// page and the host.

// AppMIMEType is the MIME type of app pages.
const AppMIMEType = "text/html;profile=mcp-app"

// An AppTool is the member of a tool's _meta that names the page for its results.
type AppTool struct {
	ResourceURI string `json:"resourceUri"` // a ui:// URI
	// who may call the tool: "model", "app"; both if empty
	Visibility []string `json:"visibility,omitzero"`
}

// An AppResource is the member of a page's _meta that lists what the page needs.
type AppResource struct {
	CSP           *AppCSP         `json:"csp,omitzero"`
	Permissions   *AppPermissions `json:"permissions,omitzero"`
	Domain        string          `json:"domain,omitzero"` // of the sandbox
	PrefersBorder *bool           `json:"prefersBorder,omitzero"`
}

// AppCSP lists the origins that a page uses.
type AppCSP struct {
	ConnectDomains  []string `json:"connectDomains,omitzero"`
	ResourceDomains []string `json:"resourceDomains,omitzero"`
	FrameDomains    []string `json:"frameDomains,omitzero"`
	BaseURIDomains  []string `json:"baseUriDomains,omitzero"`
}

// AppPermissions lists the browser permissions that a page may request.
type AppPermissions struct {
	Camera         *Mark `json:"camera,omitzero"`
	Microphone     *Mark `json:"microphone,omitzero"`
	Geolocation    *Mark `json:"geolocation,omitzero"`
	ClipboardWrite *Mark `json:"clipboardWrite,omitzero"`
}

const metaUI = "ui"

// WithApp returns a copy of the tool with a page.
func (t Tool) WithApp(a AppTool) Tool {
	t.Meta = t.Meta.With(metaUI, a)
	return t
}

// App returns the page entry of the tool's _meta, or nil if the tool has no page.
func (t *Tool) App() *AppTool {
	var a AppTool
	if !t.Meta.Get(metaUI, &a) || a.ResourceURI == "" {
		return nil
	}
	return &a
}

// WithApp returns a copy of the contents, marked as an app page.
func (r ResourceContents) WithApp(a AppResource) ResourceContents {
	r.MIMEType = AppMIMEType
	r.Meta = r.Meta.With(metaUI, a)
	return r
}

// App returns what the page needs, or nil if the contents are not an app page.
func (r *ResourceContents) App() *AppResource {
	if r.MIMEType != AppMIMEType {
		return nil
	}
	a := &AppResource{}
	r.Meta.Get(metaUI, a) // without an entry, the page needs nothing
	return a
}

// ShowsApps reports whether the client declared support for app pages.
func (r *Request) ShowsApps() bool { return hasExtension(r.capabilities, ExtensionUI) }

// AppSettings returns the settings of a client that shows pages, for
// ClientOptions.Extensions[ExtensionUI].
func AppSettings() Settings { return Settings{"mimeTypes": []string{AppMIMEType}} }
