// Command list prints the conformance rules for docs/specs.md: first the number of rules per source
// and transport, then every rule with its source, what is sent, what must be received, and on which
// transports.
//
//	go run ./conformance/list            counts and rules, as Markdown
//	go run ./conformance/list -counts    the counts alone
//	go run ./conformance/list -tsv       the rules, a line each, with tabs between the fields
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/da1ed7bb/parley/interop/conformance"
)

func main() {
	counts := flag.Bool("counts", false, "print the counts alone")
	tsv := flag.Bool("tsv", false, "print the rules with tabs between the fields")
	flag.Parse()
	w := bufio.NewWriter(os.Stdout)
	rules := conformance.Rules()
	switch {
	case *tsv:
		for _, r := range rules {
			fmt.Fprintln(w, strings.Join([]string{r.ID, r.Source, visible(r.Sends, 400), visible(r.Wants, 400), strings.Join(r.On, ",")}, "\t"))
		}
	case *counts:
		printCounts(w, rules)
	default:
		printCounts(w, rules)
		printRules(w, rules)
	}
	if err := w.Flush(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func printCounts(w *bufio.Writer, rules []conformance.Rule) {
	all := make(map[string]map[string]int)
	total := make(map[string]int)
	var documents []string
	for _, r := range rules {
		document := r.Document()
		if all[document] == nil {
			all[document] = make(map[string]int)
			documents = append(documents, document)
		}
		all[document]["rules"]++
		total["rules"]++
		for _, carrier := range r.On {
			all[document][carrier]++
			total[carrier]++
		}
	}
	slices.Sort(documents)
	columns := append([]string{"rules"}, conformance.Carriers...)
	fmt.Fprintf(w, "| source | %s |\n|---|%s\n", strings.Join(columns, " | "), strings.Repeat("---:|", len(columns)))
	row := func(name string, counts map[string]int) {
		fmt.Fprintf(w, "| %s |", name)
		for _, c := range columns {
			fmt.Fprintf(w, " %s |", strings.TrimPrefix(strconv.Itoa(counts[c]), "0"))
		}
		fmt.Fprintln(w)
	}
	for _, document := range documents {
		row(document, all[document])
	}
	row("all", total)
}

func printRules(w *bufio.Writer, rules []conformance.Rule) {
	bySource := make(map[string][]conformance.Rule)
	var sources []string
	for _, r := range rules {
		if bySource[r.Source] == nil {
			sources = append(sources, r.Source)
		}
		bySource[r.Source] = append(bySource[r.Source], r)
	}
	slices.Sort(sources)
	for _, source := range sources {
		fmt.Fprintf(w, "\n### %s\n\n| rule | sent | answer | over |\n|---|---|---|---|\n", source)
		for _, r := range bySource[source] {
			fmt.Fprintf(w, "| %s | %s | %s | %s |\n", r.ID, cell(r.Sends), cell(r.Wants), over(r.On))
		}
	}
}

// over returns the names of the transports, or "all".
func over(carriers []string) string {
	if len(carriers) == len(conformance.Carriers) {
		return "all"
	}
	return strings.Join(carriers, " ")
}

// cell formats a text for a table: one line, visible, short.
func cell(text string) string {
	text = strings.ReplaceAll(visible(text, 120), "|", "\\|")
	if text == "" {
		return "(nothing)"
	}
	return "`" + strings.ReplaceAll(text, "`", "'") + "`"
}

// visible shortens a text and escapes invisible characters.
func visible(text string, most int) string {
	if len(text) > most {
		text = text[:most*3/4] + "… (" + strconv.Itoa(len(text)) + " bytes)"
	}
	text = strconv.QuoteToGraphic(text)
	return strings.ReplaceAll(text[1:len(text)-1], `\"`, `"`)
}
