package secret

import "strings"

// A tool is a program that takes passwords in its arguments, under flags with other names.
type tool struct {
	whole  string   // short flags before a password
	words  []string // long flags before a password
	pair   string   // short flags before USER:PASSWORD
	sign   byte     // the sign between them, if it is not a colon
	cookie string   // short flags before cookies, or the name of a file with them
	long   []string // long flags before USER:PASSWORD
	glued  bool     // the value of a short flag is in the same argument
	others string   // further short flags with values, where several flags may share one "-"
	after  string   // the flags have this meaning only after this subcommand
	// operand returns the position of the secret in an argument that is no flag.
	operand func(a *arguments, word string) (from, to int)
}

var (
	curl = &tool{pair: "uU", long: []string{"user", "proxy-user"}, cookie: "b", others: "AcCdDeEFhHKmoPQrtTwxXyYz", words: []string{"pass", "proxy-pass", "oauth2-bearer"}}

	mysql    = &tool{whole: "p", glued: true}
	sshpass  = &tool{whole: "p", words: []string{"password"}}
	redisCLI = &tool{whole: "a", words: []string{"pass"}}
	registry = &tool{whole: "p", words: []string{"password"}, after: "login"}
	ldap     = &tool{whole: "ws"}
	ldapFind = &tool{whole: "w"}
	zip      = &tool{whole: "P", words: []string{"password"}}
	httpie   = &tool{pair: "a", long: []string{"auth"}}
	openssl  = &tool{long: []string{"pass", "passin", "passout", "password"}}
	samba    = &tool{pair: "U", long: []string{"user"}, sign: '%'}
	lftp     = &tool{pair: "u", long: []string{"user"}, sign: ','}
	ssh      = &tool{whole: "NP"} // ssh-keygen
	putty    = &tool{words: []string{"pw"}}
	longOnly = &tool{words: []string{"password", "passphrase", "pass", "pw", "http-password", "ftp-password", "proxy-password", "storepass", "keypass", "srcstorepass", "deststorepass"}}
	rar      = &tool{words: []string{"p", "hp"}, glued: true}
	secrets  = &tool{long: []string{"from-literal"}, sign: '=', words: []string{"docker-password"}, after: "secret"}
	oracle   = &tool{operand: oracleOperand}
	exports  = &tool{operand: exportOperand}
	htpasswd = &tool{operand: htpasswdOperand}
	rabbitmq = &tool{operand: rabbitOperand}
)

// toolOf returns the tool that a word starts, or nil.
func toolOf(word string) *tool {
	const longest = 20 // letters of a name
	word = strings.TrimSuffix(word, ".exe")
	for i := len(word) - 1; i >= 0; i-- {
		if word[i] == '/' || word[i] == '\\' {
			word = word[i+1:]
			break
		}
		if len(word)-i > longest {
			return nil
		}
	}
	switch word {
	case "curl":
		return curl
	case "mysql", "mysqldump", "mysqladmin", "mysqlimport", "mysqlcheck", "mysqlshow", "mysqlsh", "mariadb", "mariadb-dump", "mariadb-admin", "7z", "7za", "7zz":
		return mysql
	case "sshpass", "mongo", "mongosh", "mongodump", "mongorestore", "mongoexport", "mongoimport", "cqlsh", "rdesktop", "useradd", "usermod", "evil-winrm", "ncftpget", "ncftpput":
		return sshpass
	case "redis-cli", "valkey-cli":
		return redisCLI
	case "docker", "podman", "nerdctl", "buildah", "skopeo", "helm", "oras", "crane", "az":
		return registry
	case "ldappasswd":
		return ldap
	case "ldapsearch", "ldapadd", "ldapmodify", "ldapdelete", "ldapwhoami":
		return ldapFind
	case "smbclient", "rpcclient", "smbget", "smbtree", "smbcacls", "wmic":
		return samba
	case "lftp":
		return lftp
	case "ssh-keygen":
		return ssh
	case "plink", "pscp", "psftp":
		return putty
	case "gpg", "gpg2", "wget", "svn", "clickhouse-client", "influx", "keytool", "jarsigner":
		return longOnly
	case "rar", "unrar":
		return rar
	case "kubectl", "oc":
		return secrets
	case "sqlplus", "sqlplus64", "sqlldr", "rman", "expdp", "impdp":
		return oracle
	case "exp", "imp":
		return exports
	case "htpasswd":
		return htpasswd
	case "rabbitmqctl":
		return rabbitmq
	case "zip", "unzip", "sqlcmd", "bcp", "ipmitool", "mosquitto_pub", "mosquitto_sub": //nolint:misspell // the names of programs
		return zip
	case "http", "https", "xh":
		return httpie
	case "openssl":
		return openssl
	}
	return nil
}

// secretOf returns the index in an argument after which the secret begins: len(word) if the next
// argument is the secret. The separator is ':' if the user name and a colon precede the secret, '='
// if it is a secret only with this sign, and otherwise 0.
func (t *tool) secretOf(word string) (at int, separator byte, ok bool) {
	if len(word) < 2 || word[0] != '-' {
		return 0, 0, false
	}
	name, _, has := strings.Cut(strings.TrimLeft(word, "-"), "=")
	for _, long := range t.long {
		if name == long {
			at = strings.Index(word, name) + len(name)
			if has {
				at++
			}
			return at, t.between(), true
		}
	}
	for _, long := range t.words {
		switch {
		case name == long && has:
			return strings.IndexByte(word, '=') + 1, 0, true
		case name == long && !t.glued:
			return len(word), 0, true
		case t.glued && len(name) > len(long) && strings.HasPrefix(name, long) && word[1] != '-':
			return 1 + len(long), 0, true
		}
	}
	for i := 1; i < len(word); i++ {
		c := word[i]
		switch {
		case strings.IndexByte(t.pair, c) >= 0:
			return i + 1, t.between(), i+1 < len(word) || !t.glued
		case strings.IndexByte(t.cookie, c) >= 0:
			return i + 1, '=', true
		case strings.IndexByte(t.whole, c) >= 0:
			return i + 1, 0, i+1 < len(word) || !t.glued
		}
		if t.others == "" || strings.IndexByte(t.others, c) >= 0 {
			break
		}
	}
	return 0, 0, false
}

// between returns the sign between a user and a password.
func (t *tool) between() byte {
	if t.sign != 0 {
		return t.sign
	}
	return ':'
}

// within returns the position of the secret in an argument with a separator, as from secretOf, or
// zeros if the argument contains no secret.
func within(value string, separator byte) (from, to int) {
	switch separator {
	case '=':
		if strings.IndexByte(value, '=') <= 0 {
			return 0, 0
		}
	case ':', '%', ',':
		user, _, ok := strings.Cut(value, string(separator))
		if !ok || user == "env" || user == "file" || user == "fd" { // the last three are of openssl
			return 0, 0
		}
		from = len(user) + 1
	}
	secret := value[from:]
	if secret == "" || isPlaceholder(secret) || isVariable(secret) || separator == 0 && isPorts(secret) || strings.HasPrefix(secret, Hidden[:len(Hidden)-1]) { // valueAt drops the last bracket
		return 0, 0
	}
	return from, len(value)
}

// isVariable reports whether value is a variable that the shell expands, as in $NAME.
func isVariable(value string) bool {
	name, ok := strings.CutPrefix(value, "$")
	if !ok || name == "" {
		return false
	}
	if name[0] == '{' || name[0] == '(' {
		return true
	}
	for i := range len(name) {
		if c := name[i]; c != '_' && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// isPorts reports whether value is two numbers: ports, or IDs of users.
func isPorts(value string) bool {
	one, other, ok := strings.Cut(value, ":")
	return ok && strings.Trim(one, "0123456789.") == "" && other != "" && strings.Trim(other, "0123456789") == "" && one != "" && len(value) <= 21
}

// A line is a command line, as far as it has been read.
type line struct {
	until int
	tool  *tool
	ready bool // the subcommand of the tool was read
	quote byte // the open quote
}

// maxCommand is how far before a flag its program may be, in bytes.
const maxCommand = 4 << 10

// read reads text up to the index at. Each byte is read once.
func (l *line) read(text string, at int) {
	if from := at - maxCommand; l.until < from {
		*l = line{until: from}
	}
	for i := l.until; i < at; {
		c := text[i]
		switch n := lineEnd(text[i:min(i+4, len(text))]); {
		case n > 0:
			// A backslash continues the line; in JSON it is escaped.
			if i == 0 || text[i-1] != '\\' {
				l.tool, l.quote = nil, 0
			}
			i += n
			continue
		case l.tool != nil && l.quote == 0 && (c == '"' || c == '\''):
			l.quote = c
		case l.quote != 0 && c == l.quote:
			l.quote = 0
		case l.quote == 0 && (c == ';' || c == '|' || c == '&') && i+1 < len(text) && (text[i+1] == ' ' || text[i+1] == c):
			l.tool = nil
		}
		if c <= ' ' || adorned(c) || c == '(' {
			i++
			continue
		}
		from := i
		for i < at && text[i] > ' ' && !adorned(text[i]) && text[i] != '(' && (i == from || text[i] != ';' && text[i] != '|' && text[i] != '&') {
			i++
		}
		word := text[from:i]
		if t := toolOf(word); t != nil {
			*l = line{tool: t, ready: t.after == ""}
		} else if l.tool != nil && word == l.tool.after {
			l.ready = true
		}
	}
	l.until = at
}

// argument finds the secret of a flag that begins at an index, as in "mysql -px". ok is false if
// the flag has no meaning here.
func (l *line) argument(text string, at int) (from, to int, ok bool) {
	end := at + 1
	for end < len(text) && text[end] > ' ' && !adorned(text[end]) && end-at < maxName {
		end++
	}
	// Most flags are of other tools.
	if end-at < 2 || strings.IndexByte("-uUpawPAsbN", text[at+1]) < 0 && end-at < 3 {
		return 0, 0, false
	}
	l.read(text, at)
	if l.tool == nil || !l.ready {
		return 0, 0, false
	}
	i, separator, ok := l.tool.secretOf(text[at:end])
	if !ok && end < len(text) && adorned(text[end]) { // -p'x' has its value after the quote
		i, separator, ok = l.tool.secretOf(text[at:end] + `'`)
	}
	if !ok {
		return 0, 0, false
	}
	i += at
	if i == end && at > 0 && adorned(text[at-1]) && end < len(text) && adorned(text[end]) {
		return 0, 0, false // of a list in quotes
	}
	if i == end && end < len(text) && !adorned(text[end]) {
		for i < len(text) && (text[i] == ' ' || text[i] == '\t') {
			i++
		}
	}
	from, to = valueAt(text, i)
	if from == to || i >= end && text[from] == '-' && from == i {
		return 0, 0, true
	}
	if separator == '%' && to < len(text) && text[to] == '\\' { // DOMAIN\USER%PASSWORD
		if n := strings.IndexAny(text[to:min(len(text), to+maxName)], "% \n"); n > 0 && text[to+n] == '%' {
			for from, to = to+n+1, to+n+1; to < len(text) && text[to] > ' ' && !adorned(text[to]); to++ {
			}
			if from < to {
				from, to = fresh(text, from, to)
			}
			return from, to, true
		}
	}
	a, b := within(text[from:to], separator)
	return from + a, from + b, true
}

// arguments is the state of a list of arguments while it is read.
type arguments struct {
	tool  *tool
	ready bool
	next  bool // the next argument has a secret

	separator byte // of that secret

	operands uint8 // the number of arguments that are no flags, up to 255
	batch    bool  // htpasswd -b
	print    bool  // htpasswd -n
	prose    bool  // the program may be a word of a sentence
}

// newArguments returns the state before the first argument of a tool, which may be nil.
func newArguments(t *tool) arguments { return arguments{tool: t, ready: t != nil && t.after == ""} }

// secret returns the position of the secret in the next argument, or zeros.
func (a *arguments) secret(word string) (from, to int) {
	if a.next {
		a.next = false
		return within(word, a.separator)
	}
	if t := toolOf(word); t != nil {
		*a = newArguments(t)
		return 0, 0
	}
	if a.tool == nil {
		return 0, 0
	}
	if !a.ready {
		a.ready = word == a.tool.after
		return 0, 0
	}
	if a.tool.operand != nil {
		return a.tool.operand(a, word)
	}
	at, separator, ok := a.tool.secretOf(word)
	if !ok {
		return 0, 0
	}
	if at == len(word) {
		a.next, a.separator = true, separator
		return 0, 0
	}
	from, to = within(word[at:], separator)
	return at + from, at + to
}
