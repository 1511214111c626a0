package main

import (
	_ "embed" // the scripts
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// The completion scripts of bash, zsh and fish are our own: those of cobra evaluate what is typed,
// and the one for bash needs another package. All of them run "parley __complete WORD…", which
// prints a candidate with its description on each line, and at the end a colon and the sum of these
// numbers: 1 an error, 2 no blank after the candidate, 4 no names of files.
var (
	//go:embed completion/parley.bash
	bashScript string
	//go:embed completion/parley.zsh
	zshScript string
	//go:embed completion/parley.fish
	fishScript string
)

func (a *app) completionCommand() *cobra.Command {
	group := &cobra.Command{
		Use:   "completion SHELL",
		Short: "print the completion script of a shell",
		Long: `Print the completion script of a shell.

  source <(parley completion bash)      in ~/.bashrc
  source <(parley completion zsh)       in ~/.zshrc, after compinit
  parley completion fish | source       in ~/.config/fish/config.fish

Tab then completes commands, flags, targets and @names, and what the server at the target offers:
methods, tools, the names of their arguments, and the values of those that have few. A server has
one second to answer; what it offered is remembered for a minute in $XDG_STATE_HOME/parley.
Completion starts no program but parley, and the scripts of bash, zsh and fish evaluate nothing of
the line.`,
		Args: noWords,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, shell := range []struct {
		name, install string
		write         func(root *cobra.Command, w io.Writer, descriptions bool) error
	}{
		{"bash", "Print the completion script of bash 3.2 and newer.\n\n  source <(parley completion bash)\n  parley completion bash >> ~/.bashrc\n  parley completion bash > ~/.local/share/bash-completion/completions/parley\n", ownScript(bashScript)},
		{"zsh", "Print the completion script of zsh.\n\n  source <(parley completion zsh)\n  parley completion zsh >> ~/.zshrc\n  parley completion zsh > ~/.zfunc/_parley\n\nIt needs compinit. The last form needs the folder in $fpath before that.", ownScript(zshScript)},
		{"fish", "Print the completion script of fish 3.2 and newer.\n\n  parley completion fish | source\n  parley completion fish >> ~/.config/fish/config.fish\n  parley completion fish > ~/.config/fish/completions/parley.fish\n", ownScript(fishScript)},
		{"powershell", "Print the completion script of PowerShell.\n\n  parley completion powershell | Out-String | Invoke-Expression\n  parley completion powershell > parley.ps1\n  parley completion powershell >> $PROFILE\n", func(root *cobra.Command, w io.Writer, descriptions bool) error {
			if descriptions {
				return root.GenPowerShellCompletionWithDesc(w)
			}
			return root.GenPowerShellCompletion(w)
		}},
	} {
		plain := false
		cmd := &cobra.Command{
			Use:   shell.name,
			Short: "print the completion script of " + shell.name,
			Long:  strings.TrimSpace(shell.install),
			Args:  noWords,
			RunE: func(cmd *cobra.Command, _ []string) error {
				return shell.write(cmd.Root(), a.stdout, !plain)
			},
		}
		cmd.Flags().BoolVar(&plain, "no-descriptions", false, "complete without descriptions")
		group.AddCommand(cmd)
	}
	return group
}

// ownScript returns a function that prints a script of ours.
func ownScript(text string) func(*cobra.Command, io.Writer, bool) error {
	return func(_ *cobra.Command, w io.Writer, descriptions bool) error {
		if !descriptions {
			text = strings.ReplaceAll(text, cobra.ShellCompRequestCmd+" ", cobra.ShellCompNoDescRequestCmd+" ")
		}
		_, err := io.WriteString(w, text)
		return err
	}
}
