package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/da1ed7bb/parley/internal/x/private"
)

// What a server offered to completion is stored for a short time, so that Tab does not wait for the
// network each time.
const (
	offeredTime   = time.Minute
	offeredFolder = "completion" // in the folder of the state
	maxOffered    = 200          // files; the oldest are removed
	maxOfferedLen = 1 << 20      // bytes of a file; what is longer is not stored
)

// An offered is what a completion function returned.
type offered struct {
	List      []cobra.Completion       `json:"list"`
	Directive cobra.ShellCompDirective `json:"directive"`
}

// remembering wraps the completion of what a server offers. Candidates are requested without the
// typed beginning, unless that selects a kind of candidate (name=, scheme:), so that they serve
// further letters as well.
func (a *app) remembering(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, words []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		dir := a.stateDir()
		if len(words) == 0 || cmd.Flags().Lookup("timeout") == nil || dir == "" {
			return complete(cmd, words, typed)
		}
		stem := ""
		if strings.ContainsAny(typed, "=:") {
			stem = typed
		}
		file := filepath.Join(dir, offeredFolder, offeredKey(cmd, words, stem))
		found, ok := readOffered(file)
		if !ok {
			found.List, found.Directive = complete(cmd, words, stem)
			if len(found.List) > 0 { // a server that does not answer may do so soon
				storeOffered(file, found)
			}
		}
		if stem == typed { // a server may complete without regard to case
			return found.List, found.Directive
		}
		var list []cobra.Completion
		for _, one := range found.List {
			if strings.HasPrefix(one, typed) {
				list = append(list, one)
			}
		}
		return list, found.Directive
	}
}

// offeredKey identifies what was asked: by whom, with which flags, and in which folder, since names
// of servers depend on it.
func offeredKey(cmd *cobra.Command, words []string, stem string) string {
	dir, _ := os.Getwd() // a folder without a name is like any other
	parts := append([]string{"parley completion 1", dir, cmd.CommandPath(), stem}, words...)
	cmd.Flags().Visit(func(f *pflag.Flag) { parts = append(parts, "--"+f.Name, f.Value.String()) })
	text, _ := json.Marshal(parts) // strings have a JSON text
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

func readOffered(file string) (found offered, ok bool) {
	info, err := os.Lstat(file)
	if err != nil || time.Since(info.ModTime()).Abs() > offeredTime {
		return found, false
	}
	text, err := private.ReadSecret(file, maxOfferedLen)
	if err != nil || json.Unmarshal(text, &found) != nil {
		return offered{}, false
	}
	return found, true
}

// storeOffered writes the file. It does not matter if that fails: the server is asked again.
func storeOffered(file string, found offered) {
	text, err := json.Marshal(found)
	if err != nil || len(text) > maxOfferedLen || private.Folder(filepath.Dir(file)) != nil {
		return
	}
	removeOldest(filepath.Dir(file), maxOffered-1)
	_ = private.Write(file, text) // see above
}
