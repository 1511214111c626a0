package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/da1ed7bb/parley/config"
)

func (a *app) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "check configuration files with servers, and print their schema",
		Long: `Check configuration files that list servers.

  parley config check mcp.json    report errors, with line and column
  parley config found             list the files of MCP clients on this machine
  parley config schema            print the JSON Schema of parley.yaml, for editors`,
	}
	cmd.AddCommand(
		&cobra.Command{
			Use:   "check FILE…",
			Short: "report errors in files, with line and column",
			Long: `Report errors in files. The exit code is 0 if all entries are valid, and 2 if not. Secrets are not
printed.

  parley config check parley.yaml
  parley config check mcp.json
  parley config check ~/.cursor/mcp.json .mcp.json`,
			RunE: func(_ *cobra.Command, args []string) error { return a.configCheck(args) },
		},
		&cobra.Command{
			Use:   "found",
			Short: "list the files of MCP clients on this machine, without changing them",
			Long: `List the files of MCP clients on this machine, without changing them.

  parley config found                    the files, with their servers
  parley call @NAME METHOD               call a server of such a file
  parley up -c FILE                      show all servers of a file on the page`,
			Args: noWords,
			RunE: func(*cobra.Command, []string) error { return a.configFound() },
		},
		&cobra.Command{
			Use:   "schema",
			Short: "print the JSON Schema of parley.yaml",
			Long: `Print the JSON Schema of parley.yaml, for editors that complete and check it.

  parley config schema
  parley config schema > parley.schema.json
  parley config check parley.yaml        check a file without an editor`,
			Args: noWords,
			RunE: func(*cobra.Command, []string) error {
				_, err := a.stdout.Write(config.Schema)
				return err
			},
		},
	)
	return cmd
}

// configCheck lists the servers of each file on stdout and the problems on stderr.
func (a *app) configCheck(names []string) error {
	if len(names) == 0 {
		return usagef("%v", errNoConfig)
	}
	wrong := false
	for _, name := range names {
		file, err := config.Read(a.atHome(name), nil)
		if err != nil {
			return usagef("%s: %v", name, bareReason(err))
		}
		if err := a.printServers(file); err != nil {
			return err
		}
		wrong = wrong || len(file.Problems) > 0
		a.printProblems(name, file.Problems)
	}
	if wrong {
		return &silentError{exitUsage}
	}
	return nil
}

func (a *app) printServers(file *config.File) error {
	for _, e := range file.Entries {
		state := "ok"
		if e.Problem != "" {
			state = e.Problem
		} else if e.Disabled {
			state = "disabled"
		}
		if _, err := fmt.Fprintf(a.stdout, "@%s\t%s\t%s\t%s\n", visible(e.Name, 100), visible(e.Protocol, 40), visible(e.Show, 300), visible(state, 300)); err != nil {
			return err
		}
	}
	return nil
}

// countOf returns a count with its noun: "1 server", "2 servers".
func countOf(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

func (a *app) configFound() error {
	found := config.Detect(config.Places{}, nil)
	if len(found) == 0 {
		fmt.Fprintln(a.stderr, "parley: no file of an MCP client found in the usual places")
	}
	for _, f := range found {
		if _, err := fmt.Fprintf(a.stdout, "%s\t%s\t%s, %s\n", visible(f.Client, 60), visible(f.Shown, 300), countOf(len(f.Entries), "server"), countOf(len(f.Problems), "problem")); err != nil {
			return err
		}
	}
	return nil
}
