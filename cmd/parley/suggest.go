package main

import (
	"strings"

	"github.com/da1ed7bb/parley/internal/x/similar"
)

// didYouMean suggests the names of all that are most similar to the typed one, such as "; did you
// mean subtract?". It returns "" if no name is similar.
func didYouMean(name string, all []string) string {
	near := similar.Names(name, all)
	if len(near) == 0 {
		return ""
	}
	for i := range near {
		near[i] = visible(near[i], similar.MaxLength)
	}
	return "; did you mean " + strings.Join(near, " or ") + "?"
}
