package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const rootHelp = `Three to start with, against "parley demo" in another terminal:

  parley call http://127.0.0.1:3000/rpc subtract 42 23
  parley mcp call http://127.0.0.1:3000/mcp book-table restaurant="Zur Linde" guests:=4
  parley acp run http://127.0.0.1:3000/acp words "one word after the other"

parley speaks JSON-RPC 2.0, MCP, and ACP, A2A and the editor protocol of agents, to any server, on any carrier:

  http://h:p/path  https://…   over POST            :3000/rpc is http://127.0.0.1:3000/rpc
  ws://h:p/path    wss://…     over WebSocket
  tcp://h:p        tls://h:p   a line per message   ?framing=header for language servers
  unix:/path                   a Unix socket
  stdio:                       our own stdin and stdout
  -- CMD ARG…                  a child process, at the end of the line
`

const exitHelp = `Exit codes: 0 ok, 1 the server answered with an error, 2 usage, 3 authentication, 4 unreachable, timeout or
address taken, 5 a tool failed, 6 the server breaks the protocol, 130 cancelled. Data goes to stdout, everything else to stderr.
`

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "parley",
		Short:         "JSON-RPC 2.0 for agents: call, serve, look",
		Long:          rootHelp,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownVerb(cmd, plain(args[0]))
			}
			if a.hasArgv {
				return usagef("a verb is missing in front of --: parley call METHOD -- CMD")
			}
			return cmd.Help()
		},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%s (%s --help lists the flags)", strings.ReplaceAll(err.Error(), negative, ""), cmd.CommandPath())
	})
	root.SetHelpCommand(&cobra.Command{
		Use:   "help [VERB]",
		Short: "what a verb does",
		RunE: func(cmd *cobra.Command, args []string) error {
			verb, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return unknownVerb(root, strings.Join(args, " "))
			}
			verb.InitDefaultHelpFlag()
			return verb.Help()
		},
	})
	root.SuggestionsMinimumDistance = 2
	root.SetUsageFunc(a.usage)
	root.SetHelpTemplate(`{{with (or .Long .Short)}}{{. | trimTrailingWhitespaces}}{{end}}

{{.UsageString}}`)
	root.AddCommand(a.callCommand(), a.mcpCommand(), a.acpCommand(), a.a2aCommand(), a.editCommand(), a.tapCommand(), a.replayCommand(), a.demoCommand(), a.versionCommand())
	root.AddCommand(a.runCommand())
	root.AddCommand(a.upCommand(), a.configCommand())
	root.InitDefaultCompletionCmd(root.Name())
	if completion, _, err := root.Find([]string{"completion"}); err == nil {
		completion.Short = "make Tab know verbs, flags and a server's methods"
	}
	everyVerb(root, func(verb *cobra.Command) {
		verb.Flags().SortFlags = false
		verb.PreRunE = func(cmd *cobra.Command, args []string) error { return unmark(cmd, args) }
	})
	return root
}

// everyVerb walks over the verbs below cmd, and those below them.
func everyVerb(cmd *cobra.Command, f func(verb *cobra.Command)) {
	for _, verb := range cmd.Commands() {
		f(verb)
		everyVerb(verb, f)
	}
}

// unmark gives negative numbers their own look back, in the words and in the flags.
func unmark(cmd *cobra.Command, args []string) (err error) {
	for i := range args {
		args[i] = plain(args[i])
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if value := f.Value.String(); strings.HasPrefix(value, negative) {
			err = errors.Join(err, f.Value.Set(plain(value)))
		}
	})
	return err
}

func plain(word string) string { return strings.TrimPrefix(word, negative) }

func unknownVerb(root *cobra.Command, word string) error {
	hint := ""
	if near := root.SuggestionsFor(word); len(near) > 0 {
		hint = fmt.Sprintf("; did you mean %s?", strings.Join(near, " or "))
	}
	return usagef("there is no verb %q%s (parley help lists them)", cut(word, 60), hint)
}

// usage writes what stands below the text of a verb's help: the verbs or the flags.
func (a *app) usage(cmd *cobra.Command) error {
	var b strings.Builder
	if cmd.HasAvailableSubCommands() {
		b.WriteString("Verbs:\n")
		for _, verb := range cmd.Commands() {
			if verb.IsAvailableCommand() || verb.Name() == "help" {
				fmt.Fprintf(&b, "  %-11s %s\n", verb.Name(), verb.Short)
			}
		}
	}
	switch {
	case cmd.Parent() == nil:
		fmt.Fprintf(&b, "\n%s", exitHelp)
	case cmd.HasAvailableSubCommands():
		fmt.Fprintf(&b, "\n%s VERB --help tells more about one.\n", cmd.CommandPath())
	case cmd.Runnable():
		fmt.Fprintf(&b, "Usage: %s\n\n%s", cmd.UseLine(), strings.Replace(cmd.LocalFlags().FlagUsages(), `FILE[="-"]`, "[=FILE]   ", 1))
	}
	_, err := io.WriteString(cmd.OutOrStdout(), b.String())
	return err
}
