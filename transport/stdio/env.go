package stdio

import (
	"os"
	"runtime"
	"slices"
	"strings"
)

// clean are the names that a command from a file inherits from this process.
var clean = []string{"PATH", "HOME", "USER", "LANG", "TZ", "TMPDIR"}

// cleanWindows are additional names that most programs on Windows need.
var cleanWindows = []string{"SYSTEMROOT", "APPDATA", "LOCALAPPDATA", "USERPROFILE", "TEMP", "COMSPEC", "PATHEXT"}

// CleanEnv returns the environment for a command from a file, for [Options.Env]: PATH, HOME, USER,
// LANG, LC_*, TZ and TMPDIR of this process (on Windows also SYSTEMROOT, APPDATA, LOCALAPPDATA,
// USERPROFILE, TEMP, COMSPEC and PATHEXT), and the named entries, "NAME=value" each, which take
// precedence.
//
// risky lists those named entries that make a program run other code (LD_*, DYLD_*, NODE_OPTIONS,
// PYTHONPATH, PYTHONSTARTUP, GODEBUG). They are in env, because the caller named them; a program
// should warn about them.
func CleanEnv(named ...string) (env, risky []string) {
	return cleanEnv(os.Environ(), named, runtime.GOOS == "windows")
}

func cleanEnv(ours, named []string, windows bool) (env, risky []string) {
	fold := func(name string) string { return name }
	if windows {
		fold = strings.ToUpper // names are case-insensitive there
	}
	wanted := slices.Clone(clean)
	if windows {
		wanted = append(wanted, cleanWindows...)
	}
	entries := make(map[string]string)
	var order []string
	add := func(name, entry string) {
		if _, ok := entries[fold(name)]; !ok {
			order = append(order, fold(name))
		}
		entries[fold(name)] = entry
	}
	for _, entry := range ours {
		name, _, _ := strings.Cut(entry, "=")
		if slices.Contains(wanted, fold(name)) || strings.HasPrefix(fold(name), "LC_") {
			add(name, entry)
		}
	}
	for _, entry := range named {
		name, _, ok := strings.Cut(entry, "=")
		if !ok || name == "" {
			continue // not an entry
		}
		add(name, entry)
		if isRisky(strings.ToUpper(name)) && !slices.Contains(risky, name) {
			risky = append(risky, name)
		}
	}
	env = make([]string, 0, len(order)) // not nil, which would inherit
	for _, name := range order {
		env = append(env, entries[name])
	}
	return env, risky
}

func isRisky(name string) bool {
	switch name {
	case "NODE_OPTIONS", "PYTHONPATH", "PYTHONSTARTUP", "GODEBUG":
		return true
	}
	return strings.HasPrefix(name, "LD_") || strings.HasPrefix(name, "DYLD_")
}
