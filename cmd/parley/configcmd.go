package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/da1ed7bb/parley/config"
)

func (a *app) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "check a file of servers, and print its schema",
		Long: `Check files that say which servers there are.

  parley config check mcp.json    what is wrong in it, with line and column
  parley config found             the files of MCP clients on this machine
  parley config schema            the JSON Schema of parley.yaml, for editors`,
	}
	cmd.AddCommand(
		&cobra.Command{
			Use:   "check FILE…",
			Short: "tell what is wrong in files, with line and column",
			Long: `Tell what is wrong in files: exit code 0 when all of it can be used, 2 when not. Secrets are not printed.

  parley config check parley.yaml
  parley config check ~/.cursor/mcp.json .mcp.json`,
			RunE: func(_ *cobra.Command, args []string) error { return a.configCheck(args) },
		},
		&cobra.Command{
			Use:   "found",
			Short: "list the files of MCP clients on this machine; they are read, not changed",
			Args:  noWords,
			RunE:  func(*cobra.Command, []string) error { return a.configFound() },
		},
		&cobra.Command{
			Use:   "schema",
			Short: "print the JSON Schema of parley.yaml",
			Args:  noWords,
			RunE: func(*cobra.Command, []string) error {
				_, err := a.stdout.Write(config.Schema)
				return err
			},
		},
	)
	return cmd
}

// configCheck lists the servers of each file on stdout, and what is wrong on stderr.
func (a *app) configCheck(names []string) error {
	if len(names) == 0 {
		return usagef("%v", errNoConfig)
	}
	wrong := false
	for _, name := range names {
		file, err := config.Read(name, nil)
		if err != nil {
			return usagef("%s: %v", name, bareReason(err))
		}
		if err := a.printServers(file); err != nil {
			return err
		}
		for _, p := range file.Problems {
			wrong = true
			place := ": "
			if p.Line > 0 {
				place = ":"
			}
			fmt.Fprintf(a.stderr, "%s%s%s\n", name, place, visible(p.String(), 1000))
		}
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
		if _, err := fmt.Fprintf(a.stdout, "@%s\t%s\t%s\t%s\n", visible(e.Name, 100), e.Protocol, visible(e.Show, 300), visible(state, 300)); err != nil {
			return err
		}
	}
	return nil
}

// countOf is how many there are: "1 server", "2 servers".
func countOf(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

func (a *app) configFound() error {
	found := config.Detect(config.Places{}, nil)
	if len(found) == 0 {
		fmt.Fprintln(a.stderr, "parley: no file of an MCP client is in its usual place here")
	}
	for _, f := range found {
		if _, err := fmt.Fprintf(a.stdout, "%s\t%s\t%s, %s\n", f.Client, f.Shown, countOf(len(f.Entries), "server"), countOf(len(f.Problems), "problem")); err != nil {
			return err
		}
	}
	return nil
}
