package a2a

import (
	"slices"
	"strings"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// card03 holds the members that only a v0.3 card has (A2A 0.3.0, section 5.5).
type card03 struct {
	ProtocolVersion      string                `json:"protocolVersion"`
	URL                  string                `json:"url"`
	PreferredTransport   string                `json:"preferredTransport,omitzero"`
	AdditionalInterfaces []interface03         `json:"additionalInterfaces,omitempty"`
	ExtendedCard         bool                  `json:"supportsAuthenticatedExtendedCard,omitzero"`
	Security             []map[string][]string `json:"security,omitempty"`
}

type interface03 struct {
	URL       string `json:"url"`
	Transport string `json:"transport"`
}

func security03(requirements []SecurityRequirement) []map[string][]string {
	var out []map[string][]string
	for _, r := range requirements {
		one := map[string][]string{}
		for name, scopes := range r.Schemes {
			one[name] = slices.Clone(scopes.List)
		}
		out = append(out, one)
	}
	return out
}

func securityOf03(security []map[string][]string) []SecurityRequirement {
	var out []SecurityRequirement
	for _, one := range security {
		r := SecurityRequirement{Schemes: map[string]StringList{}}
		for name, scopes := range one {
			r.Schemes[name] = StringList{scopes}
		}
		out = append(out, r)
	}
	return out
}

// scheme03 holds the members of a v0.3 security scheme, whose kind is in "type".
type scheme03 struct {
	Type         string      `json:"type,omitzero"`
	In           string      `json:"in,omitzero"`
	Name         string      `json:"name,omitzero"`
	Scheme       string      `json:"scheme,omitzero"`
	BearerFormat string      `json:"bearerFormat,omitzero"`
	Flows        *OAuthFlows `json:"flows,omitzero"`
	MetadataURL  string      `json:"oauth2MetadataUrl,omitzero"`
	OpenIDURL    string      `json:"openIdConnectUrl,omitzero"`
	Description  string      `json:"description,omitzero"`
}

func schemeTo03(s SecurityScheme) scheme03 {
	switch {
	case s.APIKey != nil:
		return scheme03{Type: "apiKey", In: s.APIKey.Location, Name: s.APIKey.Name, Description: s.APIKey.Description}
	case s.HTTP != nil:
		return scheme03{Type: "http", Scheme: strings.ToLower(s.HTTP.Scheme), BearerFormat: s.HTTP.BearerFormat, Description: s.HTTP.Description}
	case s.OAuth2 != nil:
		flows := s.OAuth2.Flows
		flows.DeviceCode = nil // not in 0.3, nor is PKCE
		if f := flows.AuthorizationCode; f != nil {
			plain := *f
			plain.PKCERequired = false
			flows.AuthorizationCode = &plain
		}
		return scheme03{Type: "oauth2", Flows: &flows, MetadataURL: s.OAuth2.MetadataURL, Description: s.OAuth2.Description}
	case s.OpenID != nil:
		return scheme03{Type: "openIdConnect", OpenIDURL: s.OpenID.URL, Description: s.OpenID.Description}
	case s.MutualTLS != nil:
		return scheme03{Type: "mutualTLS", Description: s.MutualTLS.Description}
	}
	return scheme03{}
}

func (s scheme03) scheme() SecurityScheme {
	switch s.Type {
	case "apiKey":
		return SecurityScheme{APIKey: &APIKeyScheme{s.Description, s.In, s.Name}}
	case "http":
		return SecurityScheme{HTTP: &HTTPAuthScheme{s.Description, s.Scheme, s.BearerFormat}}
	case "oauth2":
		out := &OAuth2Scheme{Description: s.Description, MetadataURL: s.MetadataURL}
		if s.Flows != nil {
			out.Flows = *s.Flows
		}
		return SecurityScheme{OAuth2: out}
	case "openIdConnect":
		return SecurityScheme{OpenID: &OpenIDScheme{s.Description, s.OpenIDURL}}
	case "mutualTLS":
		return SecurityScheme{MutualTLS: &MutualTLSScheme{s.Description}}
	}
	return SecurityScheme{}
}

// cardTo03 returns a card that clients of both versions can read: the members of v1.0 and of v0.3.
// Without a v0.3 interface it returns the v1.0 card alone.
func cardTo03(c *AgentCard) jsonrpc.Raw {
	first := c.Interface(V03, BindingJSONRPC, BindingREST, BindingGRPC)
	if first == nil {
		return mustEncode(c)
	}
	old := card03{ProtocolVersion: "0.3.0", URL: first.URL, PreferredTransport: first.ProtocolBinding,
		ExtendedCard: c.Capabilities.ExtendedAgentCard, Security: security03(c.SecurityRequirements)}
	for _, in := range c.SupportedInterfaces {
		if ParseVersion(in.ProtocolVersion) == V03 && in != *first && !strings.Contains(in.ProtocolBinding, "://") {
			old.AdditionalInterfaces = append(old.AdditionalInterfaces, interface03{in.URL, in.ProtocolBinding})
		}
	}
	members := map[string]jsonrpc.Raw{}
	merge(members, mustEncode(c))
	merge(members, mustEncode(old))
	if len(c.SecuritySchemes) > 0 {
		schemes := map[string]map[string]jsonrpc.Raw{}
		for name, s := range c.SecuritySchemes {
			schemes[name] = map[string]jsonrpc.Raw{}
			merge(schemes[name], mustEncode(s))
			merge(schemes[name], mustEncode(schemeTo03(s)))
		}
		members["securitySchemes"] = mustEncode(schemes)
	}
	if slices.ContainsFunc(c.Skills, func(s AgentSkill) bool { return len(s.SecurityRequirements) > 0 }) {
		skills := make([]map[string]jsonrpc.Raw, len(c.Skills))
		for i, s := range c.Skills {
			skills[i] = map[string]jsonrpc.Raw{}
			merge(skills[i], mustEncode(s))
			if len(s.SecurityRequirements) > 0 {
				skills[i]["security"] = mustEncode(security03(s.SecurityRequirements))
			}
		}
		members["skills"] = mustEncode(skills)
	}
	return mustEncode(members)
}

// merge adds the members of an object to members.
func merge(members map[string]jsonrpc.Raw, object jsonrpc.Raw) {
	if err := object.Decode(&members); err != nil {
		panic("a2a: " + err.Error())
	}
}

// EncodeCard encodes a card for a client: in v1.0, or if union is true also readable for clients of
// v0.3.
func EncodeCard(c *AgentCard, union bool) jsonrpc.Raw {
	if union {
		return cardTo03(c)
	}
	return mustEncode(c)
}

// ParseCard parses a card of either version, or of both at once. The interfaces of a v0.3 card are
// converted to SupportedInterfaces.
func ParseCard(text []byte) (*AgentCard, error) {
	raw, err := jsonrpc.ParseRaw(text)
	if err != nil {
		return nil, err
	}
	card := new(AgentCard)
	if err := raw.Decode(card); err != nil {
		return nil, err
	}
	var old card03
	if err := raw.Decode(&old); err != nil {
		return nil, err
	}
	if old.URL != "" && card.Interface(V03, BindingJSONRPC, BindingREST, BindingGRPC) == nil &&
		(len(card.SupportedInterfaces) == 0 || strings.HasPrefix(old.ProtocolVersion, "0.3")) {
		card.addOld(&old)
	}
	card.Capabilities.ExtendedAgentCard = card.Capabilities.ExtendedAgentCard || old.ExtendedCard
	if card.SecurityRequirements == nil {
		card.SecurityRequirements = securityOf03(old.Security)
	}
	return card, nil
}

func (c *AgentCard) addOld(old *card03) {
	transport := old.PreferredTransport
	if transport == "" {
		transport = BindingJSONRPC
	}
	c.SupportedInterfaces = append(c.SupportedInterfaces, AgentInterface{URL: old.URL, ProtocolBinding: transport, ProtocolVersion: "0.3"})
	for _, in := range old.AdditionalInterfaces {
		next := AgentInterface{URL: in.URL, ProtocolBinding: in.Transport, ProtocolVersion: "0.3"}
		if !slices.Contains(c.SupportedInterfaces, next) {
			c.SupportedInterfaces = append(c.SupportedInterfaces, next)
		}
	}
}

// UnmarshalJSON decodes a scheme of either version.
func (s *SecurityScheme) UnmarshalJSON(text []byte) error {
	type plain SecurityScheme
	var in plain
	if err := jsonrpc.Raw(text).Decode(&in); err != nil {
		return err
	}
	*s = SecurityScheme(in)
	if *s != (SecurityScheme{}) {
		return nil
	}
	var old scheme03
	if err := jsonrpc.Raw(text).Decode(&old); err != nil {
		return err
	}
	*s = old.scheme()
	return nil
}
