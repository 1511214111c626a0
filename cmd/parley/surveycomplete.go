package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
)

// targetWords are the completions of a target that is not typed yet.
var targetWords = []cobra.Completion{"http://", "https://", "ws://", "tcp://", "unix:", ":3000/"}

// completeSurvey completes targets and, if names is true, the names of everything that the target
// offers. Completion never starts a child process, and waits at most one second.
func (a *app) completeSurvey(s *survey, names bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, words []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(words) == 0 {
			return a.completeTargets(s.reach.config, typed, targetWords...)
		}
		if !names {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		found := a.quietSurvey(cmd.Context(), s, words[0])
		if found == nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var list []cobra.Completion
		for _, e := range found.ordered("") {
			if strings.HasPrefix(e.Name, typed) {
				list = append(list, cobra.CompletionWithDesc(e.Name, e.Kind+": "+firstSentence(e.Description)))
			}
		}
		return list, cobra.ShellCompDirectiveNoFileComp
	}
}

// quietSurvey returns the catalog of a target, or nil if it does not arrive within one second.
func (a *app) quietSurvey(ctx context.Context, s *survey, word string) *catalog {
	if ctx == nil {
		ctx = context.Background()
	}
	quiet := &survey{
		app:    a.quiet(),
		reach:  s.reach,
		forced: s.forced,
		login:  loginFlags{how: loginNever},
	}
	quiet.reach.trace, quiet.reach.timeout = "", completeTime
	_, _, err := quiet.open(ctx, []string{word}, "never")
	if err != nil || quiet.target.Scheme == "exec" {
		return nil
	}
	found, err := quiet.find(ctx)
	if err != nil {
		return nil
	}
	return found
}
