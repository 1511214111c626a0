package mcp

// MCP Apps: a tool may bring a user interface, an HTML page that a host shows in a sandbox (MCP Apps 2026-01-26). The page is a
// resource; all else happens between the page and the host.

// AppMIMEType is the type of the pages.
const AppMIMEType = "text/html;profile=mcp-app"

// An AppTool says in a tool's _meta which page shows its results.
type AppTool struct {
	ResourceURI string   `json:"resourceUri"`         // ui://
	Visibility  []string `json:"visibility,omitzero"` // who may call the tool: "model", "app"; both when empty
}

// An AppResource says in the _meta of a page's contents what it needs.
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

// AppPermissions lists what a page may ask the browser for.
type AppPermissions struct {
	Camera         *Mark `json:"camera,omitzero"`
	Microphone     *Mark `json:"microphone,omitzero"`
	Geolocation    *Mark `json:"geolocation,omitzero"`
	ClipboardWrite *Mark `json:"clipboardWrite,omitzero"`
}

const metaUI = "ui"

// WithApp returns a copy of the tool that has a page.
func (t Tool) WithApp(a AppTool) Tool {
	t.Meta = t.Meta.With(metaUI, a)
	return t
}

// App returns what a tool says of its page, nil when it has none.
func (t *Tool) App() *AppTool {
	var a AppTool
	if !t.Meta.Get(metaUI, &a) || a.ResourceURI == "" {
		return nil
	}
	return &a
}

// WithApp returns a copy of contents that are a page.
func (r ResourceContents) WithApp(a AppResource) ResourceContents {
	r.MIMEType = AppMIMEType
	r.Meta = r.Meta.With(metaUI, a)
	return r
}

// App returns what a page needs, nil when the contents are none.
func (r *ResourceContents) App() *AppResource {
	if r.MIMEType != AppMIMEType {
		return nil
	}
	a := &AppResource{}
	r.Meta.Get(metaUI, a) // nothing said: nothing needed
	return a
}

// ShowsApps reports whether the client says that it shows pages.
func (r *Request) ShowsApps() bool { return hasExtension(r.capabilities, ExtensionUI) }

// AppSettings are those of a client that shows pages, for ClientOptions.Extensions[ExtensionUI].
func AppSettings() Settings { return Settings{"mimeTypes": []string{AppMIMEType}} }
