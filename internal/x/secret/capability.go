package secret

import "strings"

// A capability is a URL that grants access to who has it: the end of its host, the beginning of its
// path, and how the part of its path before the secret ends.
type capabilityURL struct{ host, path, after string }

var capabilities = [...]capabilityURL{
	{"hooks.slack.com", "/services/", ""},
	{"hooks.slack.com", "/workflows/", ""},
	{"hooks.slack.com", "/triggers/", ""},
	{"api.telegram.org", "/bot", ":"},
	{"api.telegram.org", "/file/bot", ":"},
	{"discord.com", "/webhooks/", "/"},
	{"discordapp.com", "/webhooks/", "/"},
	{"webhook.office.com", "/webhookb2/", ""},
	{"outlook.office.com", "/webhook/", ""},
	{"outlook.office365.com", "/webhook/", ""},
	{"hooks.zapier.com", "/hooks/catch/", ""},
	{"maker.ifttt.com", "/trigger/", "/key/"},
	{"hook.make.com", "/", ""},
	{"open.feishu.cn", "/open-apis/bot/v2/hook/", ""},
}

// capability returns the position of the secret in the path of a webhook whose host begins at an
// index, or zeros.
func capability(text string, host int) (from, to int) {
	slash := host
	for slash < len(text) && slash-host < maxName && (isAlnum(text[slash]) || text[slash] == '.' || text[slash] == '-') {
		slash++
	}
	if slash == len(text) || text[slash] != '/' {
		return 0, 0
	}
	name, path := text[host:slash], text[slash:]
	if strings.HasSuffix(name, "discord.com") || strings.HasSuffix(name, "discordapp.com") {
		path = withoutVersion(path)
	}
	for i := range capabilities {
		c := &capabilities[i]
		if strings.HasSuffix(name, c.host) && (len(name) == len(c.host) || name[len(name)-len(c.host)-1] == '.') && strings.HasPrefix(path, c.path) {
			return secretPath(text, len(text)-len(path)+len(c.path), c.after)
		}
	}
	// Mattermost has webhooks on any host.
	if rest, ok := strings.CutPrefix(path, "/hooks/"); ok {
		from = slash + len("/hooks/")
		for to = from; to < len(text) && isAlnum(text[to]); to++ {
			if c := text[to]; c >= 'A' && c <= 'Z' || to-from > mattermostKey {
				return 0, 0
			}
		}
		if len(rest) >= mattermostKey && to-from == mattermostKey && (to == len(text) || isURLEnd(text[to])) {
			return fresh(text, from, to)
		}
	}
	return 0, 0
}

const mattermostKey = 26

// withoutVersion returns a path of Discord without /api or /api/v10.
func withoutVersion(path string) string {
	rest, ok := strings.CutPrefix(path, "/api")
	if !ok {
		return path
	}
	if version, ok := strings.CutPrefix(rest, "/v"); ok {
		return strings.TrimLeft(version, "0123456789")
	}
	return rest
}

// secretPath returns the position of the secret in a path at an index, after a separator.
func secretPath(text string, from int, after string) (start, to int) {
	if after != "" {
		n := strings.Index(text[from:min(from+64, len(text))], after)
		if n < 0 {
			return 0, 0
		}
		from += n + len(after)
	}
	to = from
	for to < len(text) && !isURLEnd(text[to]) && text[to] != '?' && text[to] != '#' && (after == "" || text[to] != '/') {
		to++
	}
	if to-from < minToken {
		return 0, 0
	}
	return fresh(text, from, to)
}
