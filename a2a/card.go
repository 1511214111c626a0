package a2a

// An AgentCard describes an agent: its identity, capabilities and requirements (A2A 1.0.1, section
// 4.4.1).
type AgentCard struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	// in order of preference, best first
	SupportedInterfaces []AgentInterface          `json:"supportedInterfaces"`
	Provider            *AgentProvider            `json:"provider,omitzero"`
	Version             string                    `json:"version"` // of the agent
	DocumentationURL    string                    `json:"documentationUrl,omitzero"`
	Capabilities        AgentCapabilities         `json:"capabilities"`
	SecuritySchemes     map[string]SecurityScheme `json:"securitySchemes,omitempty"`
	// any one of them suffices
	SecurityRequirements []SecurityRequirement `json:"securityRequirements,omitempty"`
	// media types
	DefaultInputModes  []string             `json:"defaultInputModes"`
	DefaultOutputModes []string             `json:"defaultOutputModes"`
	Skills             []AgentSkill         `json:"skills"`
	Signatures         []AgentCardSignature `json:"signatures,omitempty"`
	IconURL            string               `json:"iconUrl,omitzero"`
}

// An AgentInterface is one address at which an agent can be called.
type AgentInterface struct {
	URL             string `json:"url"`
	ProtocolBinding string `json:"protocolBinding"` // such as [BindingJSONRPC]
	Tenant          string `json:"tenant,omitzero"` // sent with every request
	ProtocolVersion string `json:"protocolVersion"`
}

// An AgentProvider is the organization that offers an agent.
type AgentProvider struct {
	URL          string `json:"url"`
	Organization string `json:"organization"`
}

// AgentCapabilities lists the optional capabilities of an agent.
type AgentCapabilities struct {
	Streaming         bool             `json:"streaming,omitzero"`
	PushNotifications bool             `json:"pushNotifications,omitzero"`
	ExtendedAgentCard bool             `json:"extendedAgentCard,omitzero"`
	Extensions        []AgentExtension `json:"extensions,omitempty"`
}

// An AgentExtension is an extension of the protocol that an agent supports.
type AgentExtension struct {
	URI         string   `json:"uri"`
	Description string   `json:"description,omitzero"`
	Required    bool     `json:"required,omitzero"`
	Params      Metadata `json:"params,omitempty"`
}

// An AgentSkill is one skill of an agent.
type AgentSkill struct {
	ID                   string                `json:"id"`
	Name                 string                `json:"name"`
	Description          string                `json:"description"`
	Tags                 []string              `json:"tags"`
	Examples             []string              `json:"examples,omitempty"`
	InputModes           []string              `json:"inputModes,omitempty"`
	OutputModes          []string              `json:"outputModes,omitempty"`
	SecurityRequirements []SecurityRequirement `json:"securityRequirements,omitempty"`
}

// An AgentCardSignature is a JWS over the card (A2A 1.0.1, section 8.4).
type AgentCardSignature struct {
	Protected string   `json:"protected"`
	Signature string   `json:"signature"`
	Header    Metadata `json:"header,omitempty"`
}

// A SecurityRequirement lists the schemes that are required together, each with its scopes.
type SecurityRequirement struct {
	Schemes map[string]StringList `json:"schemes"`
}

// A StringList is a list of scopes.
type StringList struct {
	List []string `json:"list"`
}

// A SecurityScheme is one way to authenticate a caller. Exactly one of its members is set (A2A
// 1.0.1, section 4.5).
type SecurityScheme struct {
	APIKey    *APIKeyScheme    `json:"apiKeySecurityScheme,omitzero"`
	HTTP      *HTTPAuthScheme  `json:"httpAuthSecurityScheme,omitzero"`
	OAuth2    *OAuth2Scheme    `json:"oauth2SecurityScheme,omitzero"`
	OpenID    *OpenIDScheme    `json:"openIdConnectSecurityScheme,omitzero"`
	MutualTLS *MutualTLSScheme `json:"mtlsSecurityScheme,omitzero"`
}

// An APIKeyScheme is an API key in a header, the query or a cookie.
type APIKeyScheme struct {
	Description string `json:"description,omitzero"`
	Location    string `json:"location"` // "header", "query" or "cookie"
	Name        string `json:"name"`
}

// An HTTPAuthScheme is a scheme of the Authorization header, such as "Bearer".
type HTTPAuthScheme struct {
	Description  string `json:"description,omitzero"`
	Scheme       string `json:"scheme"`
	BearerFormat string `json:"bearerFormat,omitzero"`
}

// An OAuth2Scheme is OAuth 2.0 with bearer tokens.
type OAuth2Scheme struct {
	Description string     `json:"description,omitzero"`
	Flows       OAuthFlows `json:"flows"`
	MetadataURL string     `json:"oauth2MetadataUrl,omitzero"`
}

// An OpenIDScheme is OpenID Connect.
type OpenIDScheme struct {
	Description string `json:"description,omitzero"`
	URL         string `json:"openIdConnectUrl"`
}

// A MutualTLSScheme is a client certificate.
type MutualTLSScheme struct {
	Description string `json:"description,omitzero"`
}

// OAuthFlows lists the flows that return a token; v1.0 requires exactly one.
type OAuthFlows struct {
	AuthorizationCode *OAuthFlow `json:"authorizationCode,omitzero"`
	ClientCredentials *OAuthFlow `json:"clientCredentials,omitzero"`
	Implicit          *OAuthFlow `json:"implicit,omitzero"` // deprecated
	Password          *OAuthFlow `json:"password,omitzero"` // deprecated
	DeviceCode        *OAuthFlow `json:"deviceCode,omitzero"`
}

// An OAuthFlow holds the URLs that its kind requires, and the available scopes.
type OAuthFlow struct {
	AuthorizationURL       string            `json:"authorizationUrl,omitzero"`
	DeviceAuthorizationURL string            `json:"deviceAuthorizationUrl,omitzero"`
	TokenURL               string            `json:"tokenUrl,omitzero"`
	RefreshURL             string            `json:"refreshUrl,omitzero"`
	Scopes                 map[string]string `json:"scopes"`
	PKCERequired           bool              `json:"pkceRequired,omitzero"`
}

// InputModes returns the media types that the agent or one of its skills accepts. It is empty if
// the card lists none.
func (c *AgentCard) InputModes() []string {
	modes := append([]string(nil), c.DefaultInputModes...)
	for i := range c.Skills {
		modes = append(modes, c.Skills[i].InputModes...)
	}
	return modes
}

// Interface returns the first interface with version v and one of bindings, in the order of
// bindings, or nil.
func (c *AgentCard) Interface(v Version, bindings ...string) *AgentInterface {
	for _, binding := range bindings {
		for i := range c.SupportedInterfaces {
			in := &c.SupportedInterfaces[i]
			if in.ProtocolBinding == binding && ParseVersion(in.ProtocolVersion) == v {
				return in
			}
		}
	}
	return nil
}
