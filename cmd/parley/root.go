package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const rootHelp = `parley calls, serves and records JSON-RPC 2.0, and the protocols on top of it: MCP, ACP, A2A and the
Agent Client Protocol of editors. Run "parley demo" in one terminal, and try these in another:

  parley call http://127.0.0.1:3000/rpc subtract 42 23
  parley mcp call http://127.0.0.1:3000/mcp book-table restaurant="Zur Linde" guests:=4
  parley acp run http://127.0.0.1:3000/acp words "one word after the other"

Targets:

  http://h:p/path  https://…   over POST            also localhost:3000/rpc and :3000/rpc
  ws://h:p/path    wss://…     over WebSocket
  tcp://h:p        tls://h:p   a line per message   ?framing=header for language servers
  unix:/path                   a Unix socket
  stdio:                       parley's own stdin and stdout
  -- CMD ARG…                  a child process, at the end of the line
  @name                        a server of -c FILE, parley.yaml, or an installed client's file
`

const exitHelp = `Exit codes: 0 success, 1 error response, 2 usage, 3 authentication, 4 unreachable, not found,
timeout or address in use, 5 tool failed, 6 protocol violation, 130 cancelled. Data goes to stdout,
all else to stderr.
`

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "parley",
		Short:         "JSON-RPC 2.0 for agents: call, serve, record",
		Long:          rootHelp,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		Version:       thisBuild().String(), // for --version
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownVerb(cmd, plain(args[0]))
			}
			if a.hasArgv {
				return usagef("missing command before --: parley call METHOD -- CMD")
			}
			return cmd.Help()
		},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		text := strings.NewReplacer(negative, "", strings.Trim(strconv.Quote(negative), `"`), "").Replace(err.Error())
		hint := ""
		if name, unknown := strings.CutPrefix(err.Error(), "unknown flag: "); unknown {
			var flags []string
			cmd.Flags().VisitAll(func(f *pflag.Flag) {
				if !f.Hidden {
					flags = append(flags, "--"+f.Name)
				}
			})
			hint = didYouMean(name, flags)
		}
		return usagef("%s%s (see %s --help)", text, hint, cmd.CommandPath())
	})
	root.SetHelpCommand(&cobra.Command{
		Use:       "help [COMMAND]",
		Short:     "help about a command, or about targets, filters, exit-codes or environment",
		ValidArgs: []cobra.Completion{"targets", "filters", "exit-codes", "environment"},
		RunE: func(cmd *cobra.Command, args []string) error {
			if found, err := a.printTopic(args); found {
				return err
			}
			command, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return unknownVerb(root, strings.Join(args, " "))
			}
			command.InitDefaultHelpFlag()
			return command.Help()
		},
	})
	root.SetUsageFunc(a.usage)
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		text := strings.TrimSpace(orElse(cmd.Long, cmd.Short)) + "\n\n" + cmd.UsageString()
		_, _ = io.WriteString(cmd.OutOrStdout(), a.folded(text)) // without a reader, there is nothing to do
	})
	root.AddCommand(a.checkCommand())
	root.AddCommand(a.callCommand(), a.mcpCommand(), a.acpCommand(), a.a2aCommand(), a.editCommand(), a.tapCommand(), a.replayCommand(), a.demoCommand(), a.learnCommand(), a.versionCommand())
	root.AddCommand(a.runCommand(), a.bridgeCommand(), a.gateCommand(), a.benchCommand(), a.mockCommand(), a.testCommand())
	root.AddCommand(a.listCommand(), a.describeCommand(), a.doctorCommand(), a.replCommand())
	root.AddCommand(a.upCommand(), a.configCommand())
	root.AddCommand(a.wrapCommand(), a.unwrapCommand(), a.diffCommand(), a.importCommand())
	root.AddCommand(a.agentHelpCommand(), a.manCommand(), a.completionCommand())
	everyCommand(root, func(command *cobra.Command) {
		command.Flags().SortFlags = false
		command.PreRunE = func(cmd *cobra.Command, args []string) error { return unmark(cmd, args) }
		if command.ValidArgsFunction != nil {
			command.ValidArgsFunction = offering(a.remembering(command.ValidArgsFunction))
		}
	})
	return root
}

// everyCommand calls f for each command below cmd, recursively.
func everyCommand(cmd *cobra.Command, f func(command *cobra.Command)) {
	for _, command := range cmd.Commands() {
		f(command)
		everyCommand(command, f)
	}
}

// unmark restores negative numbers in the words and the flags.
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

// unknownVerb returns the error for a word that is not a command below parent.
func unknownVerb(parent *cobra.Command, word string) error {
	var names []string
	for _, command := range parent.Commands() {
		if command.IsAvailableCommand() {
			names = append(names, command.Name())
		}
	}
	return usagef("unknown command %q%s (see %s)", cut(word, 60), didYouMean(word, names), helpLine(parent))
}

// helpLine is the command that prints the help of cmd.
func helpLine(cmd *cobra.Command) string {
	if cmd.HasParent() {
		return cmd.CommandPath() + " --help"
	}
	return "parley help"
}

// helpWidth is the maximum length of a line of a help text.
const helpWidth = 100

// flagUsages describes the flags of a command, one under the other.
func (a *app) flagUsages(cmd *cobra.Command) string {
	return cmd.LocalFlags().FlagUsagesWrapped(a.helpColumns())
}

// usage prints the part of the help below the text: the subcommands or the flags.
func (a *app) usage(cmd *cobra.Command) error {
	var b strings.Builder
	if cmd.HasAvailableSubCommands() {
		b.WriteString("Commands:\n")
		for _, command := range cmd.Commands() {
			if command.IsAvailableCommand() || command.Name() == "help" {
				fmt.Fprintf(&b, "  %-11s %s\n", command.Name(), command.Short)
			}
		}
	}
	switch {
	case cmd.Parent() == nil:
		fmt.Fprintf(&b, "\n%s", exitHelp)
	case cmd.HasAvailableSubCommands():
		fmt.Fprintf(&b, "\nRun %s COMMAND --help for details.\n", cmd.CommandPath())
	case cmd.Runnable():
		fmt.Fprintf(&b, "Usage: %s\n\n%s", cmd.UseLine(), strings.Replace(a.flagUsages(cmd), `FILE[="-"]`, "[=FILE]   ", 1))
	}
	_, err := io.WriteString(cmd.OutOrStdout(), b.String())
	return err
}
