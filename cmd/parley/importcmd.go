package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/capture/imports"
	"github.com/da1ed7bb/parley/internal/x/private"
)

// maxImport is the maximum size of a recording of another program, in bytes.
const maxImport = 256 << 20

func (a *app) importCommand() *cobra.Command {
	var record string
	var hide hideFlags
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "turn a recording of another program into a session",
		Long: `Turn a recording of another program into a session: a HAR file of a browser or a proxy, a log or
JSON export of mcpsnoop, or the exported history of the MCP Inspector. The format is detected.

  parley import app.har > session.jsonl
  parley import history.json --record session.jsonl
  parley import - < mcpsnoop.jsonl | parley replay /dev/stdin

Of a HAR file, exchanges without JSON-RPC are left out. Secrets are removed as in a recording.`,
		Args: func(_ *cobra.Command, words []string) error {
			if len(words) != 1 {
				return usagef("missing FILE. Usage: parley import FILE; - is stdin")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, words []string) error { return a.importFile(words[0], record, hide) },
	}
	cmd.Flags().StringVarP(&record, "record", "r", "", "write the session to the new file `FILE` instead of stdout")
	hide.register(cmd)
	return cmd
}

func (a *app) importFile(name, record string, hide hideFlags) error {
	redaction, err := hide.redaction(a.getenv)
	if err != nil {
		return err
	}
	text, err := a.importText(name)
	if err != nil {
		return err
	}
	found, err := imports.Read(text)
	if err != nil {
		return usagef("%s: %s", visible(name, 300), visible(err.Error(), 500))
	}
	lines := capture.AppendHeader(nil)
	for i := range found.Events {
		lines = capture.AppendLine(lines, &found.Events[i])
	}
	log, err := capture.Read(bytes.NewReader(lines))
	if err != nil {
		return err
	}
	var session bytes.Buffer
	if err := log.WriteSession(&session, &capture.ExportOptions{Redact: redaction}); err != nil {
		return usagef("%s", strings.TrimPrefix(err.Error(), "capture: "))
	}
	if record == "" {
		_, err = a.stdout.Write(session.Bytes())
	} else if _, there := os.Lstat(record); !errors.Is(there, fs.ErrNotExist) {
		return usagef("--record %s: the file exists", visible(record, 300))
	} else if err = private.Write(record, session.Bytes()); err != nil {
		return fileError("--record", record, err)
	}
	if err != nil {
		return err
	}
	note := ""
	if found.Skipped > 0 {
		note = fmt.Sprintf("; %d without JSON-RPC left out", found.Skipped)
	}
	fmt.Fprintf(a.stderr, "parley: %s: %s%s\n", found.Format, countOf(len(found.Events), "event"), note)
	return nil
}

// importText reads the file, or stdin.
func (a *app) importText(name string) ([]byte, error) {
	in := a.stdin
	if name != "-" {
		f, err := os.Open(a.atHome(name))
		if err != nil {
			return nil, usagef("%s: %v", visible(name, 300), bareReason(err))
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, maxImport+1))
	switch {
	case err != nil:
		return nil, usagef("%s: %v", visible(name, 300), bareReason(err))
	case len(text) > maxImport:
		return nil, usagef("%s: it is larger than %d MiB", visible(name, 300), maxImport>>20)
	}
	return text, nil
}
