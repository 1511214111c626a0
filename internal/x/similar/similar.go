// Package similar finds the names that a mistyped name may stand for.
package similar

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Bounds of suggestions: names of more than [MaxLength] bytes are not compared, and at most
// [MaxNames] are suggested.
const (
	MaxLength = 100
	MaxNames  = 3
)

// Names returns the names of all that are most similar to name, best first: those that
// differ in case and separators only, in few letters, or that contain name or end it.
func Names(name string, all []string) []string {
	type candidate struct {
		name     string
		distance int
	}
	var near []candidate
	if len(name) > MaxLength {
		return nil
	}
	for _, other := range all {
		if other == "" || other == name || len(other) > MaxLength {
			continue
		}
		if d, ok := distanceOf(name, other); ok && !slices.ContainsFunc(near, func(c candidate) bool { return c.name == other }) {
			near = append(near, candidate{other, d})
		}
	}
	slices.SortStableFunc(near, func(a, b candidate) int { return cmp.Compare(a.distance, b.distance) })
	var names []string
	for _, c := range near[:min(len(near), MaxNames)] {
		names = append(names, c.name)
	}
	return names
}

// distanceOf returns how far two names are apart, and whether they are similar at all.
func distanceOf(name, other string) (int, bool) {
	a, b := sameLetters(name), sameLetters(other)
	if a == b {
		return 0, true
	}
	// One typo in a short name, and one more for every four further letters.
	if d := typos(a, b); d <= 1+(utf8.RuneCountInString(a)-3)/4 && d < min(len(a), len(b)) {
		return d, true
	}
	if len(a) >= 3 && strings.Contains(b, a) || len(b) >= 3 && strings.HasSuffix(a, b) {
		return MaxLength, true
	}
	return 0, false
}

// sameLetters returns a name without case and separators.
func sameLetters(name string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "", "/", "", ".", "", " ", "").Replace(name))
}

// typos returns the number of inserted, deleted, replaced and exchanged letters that turn a into b
// (optimal string alignment).
func typos(a, b string) int {
	x, y := []rune(a), []rune(b)
	rows := make([][]int, len(x)+1)
	for i := range rows {
		rows[i] = make([]int, len(y)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(x); i++ {
		for j := 1; j <= len(y); j++ {
			cost := 0
			if x[i-1] != y[j-1] {
				cost = 1
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(x)][len(y)]
}
