package main

import (
	"regexp"
	"slices"
	"strings"
)

// maxMessages limits the lines of a summary.
const maxMessages = 20

var (
	// place matches a message with its place, as tests, compilers and linters print it.
	place = regexp.MustCompile(`^\s*[\w./@+-]+\.(go|mjs|js|ts|svelte|md):\d+(:\d+)?:? `)
	// frame matches a line of a stack.
	frame = regexp.MustCompile(`^\s+\S+\.go:\d+( \+0x[0-9a-f]+)?$`)
	// telling matches other lines that name a failure.
	telling = regexp.MustCompile(`^(panic: |fatal error: |vet: |goleak: |E: |go: |npm error |make: \*\*\* |page: |setup: |unchanged: |gotest: |input |not ok |✖ )|` +
		`no required module|found unexpected goroutines|exit status |command not found|^\s*[\w/.-]+: \d+: `)
	// noise matches what is not worth a line.
	noise = regexp.MustCompile(`^(=== |\s*--- (PASS|SKIP)|ok  |\?   |PASS$|-test\.shuffle|exit status 1$|go: downloading |setup: (npm ci|build|apt-get)|make(\[\d+\])?: (\*\*\* \[|Entering|Leaving))`)
)

// Summary returns the lines of an output that tell what failed: a data race and a panic with their
// places in our files, else messages with their places, else the last lines.
func Summary(output string) []string {
	lines := strings.Split(strings.TrimRight(output, "\n"), "\n")
	for i, line := range lines {
		switch {
		case strings.Contains(line, "WARNING: DATA RACE"):
			return append([]string{"WARNING: DATA RACE"}, stack(lines[i+1:], "==================")...)
		case stops(line):
			return append(messages(lines[:i], 3), append([]string{line}, stack(lines[i+1:], "FAIL\t")...)...)
		}
	}
	if found := messages(lines, maxOutput); len(found) > 0 {
		// A test that logs much fails at its end, or soon after its beginning.
		if over := len(found) - maxMessages; over > 0 {
			found = slices.Delete(found, maxMessages/5, maxMessages/5+over)
		}
		return found
	}
	var last []string
	for _, line := range lines {
		if strings.TrimSpace(line) != "" && !noise.MatchString(line) {
			last = append(last, strings.TrimRight(line, " \t"))
		}
	}
	return last[max(0, len(last)-10):]
}

// stops reports whether a line is the first of a data race or of the end of a program.
func stops(line string) bool {
	return line == "WARNING: DATA RACE" || strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ")
}

// messages returns at most most lines that name a failure, each place with the lines that belong to
// it.
func messages(lines []string, most int) []string {
	var found []string
	below := 0 // lines that may still belong to the last message
	for _, line := range lines {
		switch {
		case noise.MatchString(line):
			below = 0
			continue
		case place.MatchString(line):
			below = 2
		case telling.MatchString(line):
			below = 1
		case below > 0 && strings.HasPrefix(line, "   "):
			below--
		default:
			below = 0
			continue
		}
		if found = append(found, strings.TrimSpace(line)); len(found) == most {
			break
		}
	}
	return found
}

// stack returns the lines of a stack that are places in files of tests or of the module, not of Go
// itself, with what is at them.
func stack(lines []string, end string) []string {
	var found []string
	for _, line := range lines {
		if strings.HasPrefix(line, end) || len(found) >= 8 {
			break
		}
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "Test"), strings.HasPrefix(line, "running tests"):
			found = append(found, strings.TrimSpace(line))
		case frame.MatchString(line) && ours(strings.TrimSpace(line)):
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// ours reports whether a file belongs neither to Go nor to a dependency. Files of programs built
// with -trimpath begin with the path of their module.
func ours(file string) bool {
	if strings.HasPrefix(file, "/") {
		return !strings.Contains(file, "/go/src/") && !strings.Contains(file, "/pkg/mod/")
	}
	first, _, _ := strings.Cut(file, "/")
	return strings.Contains(first, ".") && !strings.Contains(file, "@")
}
