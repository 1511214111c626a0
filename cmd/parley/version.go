package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// A build is what this binary knows about itself.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"` // built from a tree that differed from the revision
	Time     string `json:"time,omitempty"`     // of the revision
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

func (a *app) versionCommand() *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "version",
		Short: "which parley this is",
		Args:  noWords,
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
			_, err := fmt.Fprintf(a.stdout, "parley %s %s %s/%s\n", b.Version, b.Go, b.OS, b.Arch)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "as a JSON object, with revision and time of the build")
	return cmd
}

// noWords refuses anything but flags.
func noWords(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no word %q", cmd.CommandPath(), cut(plain(args[0]), 60))
	}
	return nil
}
