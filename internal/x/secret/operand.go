package secret

import "strings"

// oracleOperand finds the password in an argument of a program of Oracle, as in
// "sqlplus me/password@db". Only the first one is examined, since the next ones may be files.
func oracleOperand(a *arguments, word string) (from, to int) {
	if a.operands > 0 || word == "" || strings.IndexByte("-/@.", word[0]) >= 0 {
		return 0, 0
	}
	if name, value, ok := strings.Cut(word, "="); ok && len(name) <= len("auxiliary") {
		switch strings.ToLower(name) {
		case "userid", "target", "catalog", "auxiliary":
			from = len(word) - len(value)
		default:
			return 0, 0
		}
	}
	slash := strings.IndexByte(word[from:], '/')
	if slash <= 0 || strings.Trim(strings.ToLower(word[from:from+slash]), "abcdefghijklmnopqrstuvwxyz0123456789_$#") != "" {
		return 0, 0
	}
	from += slash + 1
	to = len(word)
	if at := strings.LastIndexByte(word[from:], '@'); at >= 0 {
		to = from + at
	}
	password := word[from:to]
	if password == "" || strings.IndexByte(password, '/') >= 0 || a.prose && to == len(word) && from == slash+1 {
		return 0, 0
	}
	a.operands++
	if isPlaceholder(password) || isVariable(password) || strings.HasPrefix(password, Hidden[:len(Hidden)-1]) {
		return 0, 0
	}
	return from, to
}

// exportOperand is oracleOperand for programs whose names are words too: the host follows.
func exportOperand(a *arguments, word string) (from, to int) {
	if strings.IndexByte(word, '@') < 0 && !strings.HasPrefix(strings.ToLower(word), "userid=") {
		return 0, 0
	}
	return oracleOperand(a, word)
}

// htpasswdOperand finds the password in "htpasswd -b FILE USER PASSWORD", or "htpasswd -nb USER
// PASSWORD".
func htpasswdOperand(a *arguments, word string) (from, to int) {
	if word == "" {
		return 0, 0
	}
	if word[0] == '-' && a.operands == 0 {
		a.batch, a.print = a.batch || strings.IndexByte(word, 'b') > 0, a.print || strings.IndexByte(word, 'n') > 0
		return 0, 0
	}
	a.operands += min(1, 255-a.operands)
	if !a.batch || a.operands != 3 && (a.operands != 2 || !a.print) {
		return 0, 0
	}
	return within(word, 0)
}

// rabbitOperand finds the password in "rabbitmqctl add_user USER PASSWORD".
func rabbitOperand(a *arguments, word string) (from, to int) {
	switch {
	case word == "add_user", word == "change_password", word == "authenticate_user":
		a.operands = 1
	case a.operands > 0 && word != "" && word[0] != '-':
		if a.operands += min(1, 255-a.operands); a.operands == 3 {
			return within(word, 0)
		}
	}
	return 0, 0
}

// maxOperands is how far after its program an operand is found, in bytes.
const maxOperands = 512

// operands finds secrets in the arguments that follow a program whose name ends before the blank
// before the index at.
func operands(text string, at, offset int, edits *edits) {
	name := at - 1
	for name > 0 && at-name < 16 && (isAlnum(text[name-1]) || text[name-1] == '_') {
		name--
	}
	t := toolOf(text[name : at-1])
	if t == nil || t.operand == nil {
		return
	}
	args := newArguments(t)
	args.prose = name > 0 && text[name-1] == ' ' && (name < 2 || strings.IndexByte("$#%>;&|", text[name-2]) < 0)
	for limit := at + maxOperands; at < len(text) && at < limit; {
		if lineEnd(text[at:]) > 0 || strings.IndexByte("|;&<>", text[at]) >= 0 {
			return
		}
		if text[at] <= ' ' {
			at++
			continue
		}
		from := at
		for at < len(text) && at < limit && text[at] > ' ' && lineEnd(text[at:]) == 0 {
			at++
		}
		// Quotes around the argument, or around the password in it.
		word := strings.TrimRight(strings.TrimLeft(text[from:at], "\\'\"`"), "\\'\"`")
		from += strings.Index(text[from:at], word)
		if a, b := args.secret(word); b > a {
			for a < b && adorned(word[a]) {
				a++
			}
			for b > a && adorned(word[b-1]) {
				b--
			}
			edits.add(offset+from+a, offset+from+b, Hidden)
			return
		} else if toolOf(word) != nil {
			return // it is handled on its own
		}
	}
}

// assigns returns the position of the value after the name of a setting, as in
// "aws configure set aws_secret_access_key x"; or zeros. The name begins at the index at.
func (s *Set) assigns(text string, at int) (from, to int) {
	end := at
	for end < len(text) && end-at < maxName && text[end] > ' ' && !adorned(text[end]) {
		end++
	}
	name := text[at:end]
	name = name[strings.LastIndexAny(name, "/:")+1:]
	if end == len(text) || text[end] != ' ' || len(name) < 3 || !s.rules.hides([]byte(name)) {
		return 0, 0
	}
	from, to = valueAt(text, end+1)
	if from == to || from == end+1 && !looksSecret(text[from:to]) || isPlaceholder(text[from:to]) || isVariable(text[from:to]) || isPath(text[from:to]) {
		return 0, 0
	}
	return fresh(text, from, to)
}
