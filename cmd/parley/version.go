package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// A build describes this binary.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"` // built from a tree with uncommitted changes
	Time     string `json:"time,omitempty"`     // of the commit
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

func thisBuild() build {
	b := build{Version: "(devel)", Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		case "vcs.time":
			b.Time = s.Value
		}
	}
	return b
}

// String returns the line of parley version.
func (b build) String() string {
	return fmt.Sprintf("parley %s %s %s/%s", b.Version, b.Go, b.OS, b.Arch)
}

func (a *app) versionCommand() *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "version",
		Short: "print the version",
		Long: `Print the version of parley, of Go, and the system.

  parley version
  parley version --json
  parley --version`,
		Args: noWords,
		RunE: func(*cobra.Command, []string) error {
			b := thisBuild()
			if asJSON {
				text, err := json.Marshal(b)
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(a.stdout, "%s\n", text)
				return err
			}
			_, err := fmt.Fprintln(a.stdout, b)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object, with the revision and time of the build")
	return cmd
}

// noWords rejects positional arguments.
func noWords(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("unexpected argument %[2]q (see %[1]s --help)", cmd.CommandPath(), cut(plain(args[0]), 60))
	}
	return nil
}
