package openrpc

import "github.com/da1ed7bb/parley/jsonrpc"

// The versions of the OpenRPC Specification that this package writes. They differ only in the
// number. The default is 1.3.2, because tools that support only 1.3 reject 1.4.
const (
	Version13 = "1.3.2"
	Version14 = "1.4.1"
)

// Extensions holds the members that this package has no field for: those that start with "x-"
// (OpenRPC 1.3.2, Specification Extensions) and those added by newer versions. They are written as
// they were read.
type Extensions map[string]jsonrpc.Raw

// A Document describes a service (OpenRPC 1.3.2, OpenRPC Object). It is plain data, also for
// documents from other servers: reading and writing a document preserves its meaning.
//
// Where the specification allows a Reference Object, the struct has a Ref. If Ref is set, only the
// reference is written.
type Document struct {
	OpenRPC      string        `json:"openrpc"` // version of the specification
	Info         Info          `json:"info"`
	ExternalDocs *ExternalDocs `json:"externalDocs,omitzero"`
	Servers      []Server      `json:"servers,omitzero"`
	Methods      []Method      `json:"methods"`
	Components   *Components   `json:"components,omitzero"`
	Extra        Extensions    `json:",embed"`
}

// Info describes the service (Info Object).
type Info struct {
	Title          string     `json:"title"`
	Description    string     `json:"description,omitzero"`
	TermsOfService string     `json:"termsOfService,omitzero"` // a URL
	Version        string     `json:"version"`                 // of the service, not of OpenRPC
	Contact        *Contact   `json:"contact,omitzero"`
	License        *License   `json:"license,omitzero"`
	Extra          Extensions `json:",embed"`
}

// Contact is the contact for the service (Contact Object).
type Contact struct {
	Name  string     `json:"name,omitzero"`
	Email string     `json:"email,omitzero"`
	URL   string     `json:"url,omitzero"`
	Extra Extensions `json:",embed"`
}

// License is the licence of the service (License Object).
type License struct {
	Name  string     `json:"name,omitzero"`
	URL   string     `json:"url,omitzero"`
	Extra Extensions `json:",embed"`
}

// Server is an address of the service (Server Object).
type Server struct {
	Name        string                    `json:"name,omitzero"`
	URL         string                    `json:"url"` // may contain ${variables}
	Summary     string                    `json:"summary,omitzero"`
	Description string                    `json:"description,omitzero"`
	Variables   map[string]ServerVariable `json:"variables,omitzero"`
	Extra       Extensions                `json:",embed"`
}

// ServerVariable is a variable in the URL of a [Server] (Server Variable Object).
type ServerVariable struct {
	Default     string     `json:"default"`
	Description string     `json:"description,omitzero"`
	Enum        []string   `json:"enum,omitzero"`
	Extra       Extensions `json:",embed"`
}

// ExternalDocs refers to further documentation (External Documentation Object).
type ExternalDocs struct {
	Description string     `json:"description,omitzero"`
	URL         string     `json:"url"`
	Extra       Extensions `json:",embed"`
}

// The ways in which a method accepts its params (Method Object, paramStructure).
const (
	Either     = "either" // the default
	ByName     = "by-name"
	ByPosition = "by-position"
)

// Variadic is the extension that this package sets on the last parameter of a method that accepts
// any number of values. OpenRPC has no term for that; a reader that does not support the extension
// sees one optional parameter, which is also correct.
const Variadic = "x-variadic"

// A Method describes one method (Method Object). A Method without Result is only for notifications.
type Method struct {
	Ref         string `json:"$ref,omitzero"`
	Name        string `json:"name,omitzero"`
	Summary     string `json:"summary,omitzero"`
	Description string `json:"description,omitzero"`
	Tags        []Tag  `json:"tags,omitzero"`
	// ParamStructure is Either, ByName or ByPosition. If empty, it is Either.
	ParamStructure string              `json:"paramStructure,omitzero"`
	Params         []ContentDescriptor `json:"params,omitzero"`
	Result         *ContentDescriptor  `json:"result,omitzero"`
	Errors         []ErrorObject       `json:"errors,omitzero"`
	Links          []Link              `json:"links,omitzero"`
	Examples       []ExamplePairing    `json:"examples,omitzero"`
	Deprecated     bool                `json:"deprecated,omitzero"`
	ExternalDocs   *ExternalDocs       `json:"externalDocs,omitzero"`
	Servers        []Server            `json:"servers,omitzero"`
	Extra          Extensions          `json:",embed"`
}

// A ContentDescriptor describes a parameter or a result (Content Descriptor Object). The name of a
// parameter is its member name in params by name.
type ContentDescriptor struct {
	Ref         string      `json:"$ref,omitzero"`
	Name        string      `json:"name,omitzero"`
	Summary     string      `json:"summary,omitzero"`
	Description string      `json:"description,omitzero"`
	Required    bool        `json:"required,omitzero"`
	Deprecated  bool        `json:"deprecated,omitzero"`
	Schema      jsonrpc.Raw `json:"schema,omitzero"` // JSON Schema draft-07, unchanged
	Extra       Extensions  `json:",embed"`
}

// An ErrorObject is an error that a method may return (Error Object).
type ErrorObject struct {
	Ref     string      `json:"$ref,omitzero"`
	Code    int64       `json:"code"`
	Message string      `json:"message"`
	Data    jsonrpc.Raw `json:"data,omitzero"`
	Extra   Extensions  `json:",embed"`
}

// An ExamplePairing is a call and its result (Example Pairing Object). Params are in the order of
// the method's params. Without a Result it is an example of a notification.
type ExamplePairing struct {
	Ref         string     `json:"$ref,omitzero"`
	Name        string     `json:"name,omitzero"`
	Summary     string     `json:"summary,omitzero"`
	Description string     `json:"description,omitzero"`
	Params      []Example  `json:"params,omitzero"`
	Result      *Example   `json:"result,omitzero"`
	Extra       Extensions `json:",embed"`
}

// An Example is one value (Example Object).
type Example struct {
	Ref         string      `json:"$ref,omitzero"`
	Name        string      `json:"name,omitzero"`
	Summary     string      `json:"summary,omitzero"`
	Description string      `json:"description,omitzero"`
	Value       jsonrpc.Raw `json:"value,omitzero"`
	Extra       Extensions  `json:",embed"`
}

// A Link describes a method that may be called with the result of another (Link Object).
type Link struct {
	Ref         string      `json:"$ref,omitzero"`
	Name        string      `json:"name,omitzero"`
	Summary     string      `json:"summary,omitzero"`
	Description string      `json:"description,omitzero"`
	Method      string      `json:"method,omitzero"`
	Params      jsonrpc.Raw `json:"params,omitzero"`
	Server      *Server     `json:"server,omitzero"`
	Extra       Extensions  `json:",embed"`
}

// A Tag groups methods (Tag Object).
type Tag struct {
	Ref          string        `json:"$ref,omitzero"`
	Name         string        `json:"name,omitzero"`
	Summary      string        `json:"summary,omitzero"`
	Description  string        `json:"description,omitzero"`
	ExternalDocs *ExternalDocs `json:"externalDocs,omitzero"`
	Extra        Extensions    `json:",embed"`
}

// Components holds objects that other parts of the document refer to (Components Object).
type Components struct {
	ContentDescriptors map[string]ContentDescriptor `json:"contentDescriptors,omitzero"`
	Schemas            map[string]jsonrpc.Raw       `json:"schemas,omitzero"`
	Examples           map[string]Example           `json:"examples,omitzero"`
	Links              map[string]Link              `json:"links,omitzero"`
	Errors             map[string]ErrorObject       `json:"errors,omitzero"`
	ExamplePairings    map[string]ExamplePairing    `json:"examplePairings,omitzero"`
	Tags               map[string]Tag               `json:"tags,omitzero"`
	Extra              Extensions                   `json:",embed"`
}

// Method returns the method with that name.
func (d *Document) Method(name string) (*Method, bool) {
	for i := range d.Methods {
		if d.Methods[i].Name == name {
			return &d.Methods[i], true
		}
	}
	return nil, false
}
