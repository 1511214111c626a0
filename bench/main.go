package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"time"
)

func main() {
	var (
		quick    = flag.Bool("quick", false, "three short rounds: for a first look")
		full     = flag.Bool("full", false, "nine longer rounds, and how cost grows")
		only     = flag.String("only", "", "scenarios that match this `regexp`, such as 'unix, 50'; \"idle\" is one too")
		entry    = flag.String("entry", "", "entries that match this `regexp`")
		list     = flag.Bool("list", false, "list scenarios and entries, and end")
		check    = flag.Bool("check", false, "compare with the baseline; the status is 1 after a loss of more than 15 %")
		record   = flag.Bool("record", false, "write the ratios of this run into the baseline")
		file     = flag.String("baseline", "baseline.json", "the baseline's `file`")
		jsonOut  = flag.String("json", "", "write the report as JSON to this `file`")
		plotOut  = flag.String("plot", "", "write a plot as SVG to this `file`")
		taps     = flag.Bool("tap", false, "tell what a tap and a recording cost on each transport, and end")
		profiles = flag.String("profile", "", "write profiles of parley's entries into this `folder`")
	)
	flag.Parse()
	// This is checked first, because the process has inherited the other variable.
	if address := os.Getenv(idleClient); address != "" {
		dialIdle(address)
		return
	}
	if name := os.Getenv(idleServer); name != "" {
		serveIdle(name)
		return
	}

	if os.Getenv(stdioServer) != "" {
		serveStdio()
		return
	}
	if *taps {
		rounds := 30
		if *quick {
			rounds = 8
		}
		must(tapCost(os.Stdout, rounds, 200))
		return
	}

	plan := Plan{Rounds: 5, Time: 100 * time.Millisecond, Profiles: *profiles}
	switch {
	case *quick:
		plan.Rounds, plan.Time = 3, 40*time.Millisecond
	case *full:
		plan.Rounds, plan.Time = 9, 250*time.Millisecond
	}
	if *profiles != "" {
		must(os.MkdirAll(*profiles, 0o755))
		plan.Time = 2 * time.Second
	}
	wanted, chosen := regexp.MustCompile(*only), regexp.MustCompile(*entry)
	var entries []Entry
	for _, e := range libraries() {
		if chosen.MatchString(e.Name) {
			entries = append(entries, e)
		}
	}

	report := newReport(plan.Rounds)
	for _, s := range scenarios() {
		switch {
		case !wanted.MatchString(s.Name()) || s.Growth && !*full:
		case *list:
			s.print(entries)
		default:
			fmt.Fprintln(os.Stderr, s.Name())
			if results := s.Run(entries, plan); len(results) > 0 {
				report.Scenarios = append(report.Scenarios, Table{s.Name(), s.Growth, results})
			}
		}
	}
	if *list {
		return
	}
	if wanted.MatchString("idle") && (!*quick || *only != "") {
		report.Idle = measureIdle(chosen)
	}
	report.WriteMarkdown(os.Stdout)
	writeFile(*jsonOut, func(f *os.File) error { return report.WriteJSON(f) })
	writeFile(*plotOut, func(f *os.File) error { report.WritePlot(f); return nil })
	if *record {
		must(writeBaseline(*file, report.baseline()))
	}
	if *check {
		was, err := readBaseline(*file)
		must(err)
		if lost := was.compare(os.Stderr, report.baseline()); lost > 0 {
			fmt.Fprintf(os.Stderr, "%d ratios are worse than in %s by more than %.0f %%\n", lost, *file, 100*tolerated)
			os.Exit(1)
		}
	}
}

// print prints the scenario and its entries.
func (s Scenario) print(entries []Entry) {
	fmt.Println(s.Name())
	for _, e := range entries {
		if c := s.enter(e); c != nil {
			c.close()
			fmt.Println("\t" + e.Name)
		}
	}
}

// writeFile creates a file, unless name is empty.
func writeFile(name string, write func(*os.File) error) {
	if name == "" {
		return
	}
	f, err := os.Create(name)
	must(err)
	must(write(f))
	must(f.Close())
}
