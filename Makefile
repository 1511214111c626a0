# `make` alone lists the targets.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

# The Go that is installed is the Go that is used: no target downloads a toolchain.
GOTOOLCHAIN ?= local
export GOTOOLCHAIN

# What is built does not depend on the folder of the checkout, so that a fresh clone finds it in Go's cache.
export GOFLAGS := -trimpath $(shell go env GOFLAGS)

# A test binary under the race detector otherwise sleeps for a second before it exits.
export GORACE ?= atexit_sleep_ms=0

FUZZTIME ?= 2s
FUZZ     ?=
BENCH    ?= .
COUNT    ?= 1
FAULTS   ?= 10000
KILLS    ?= 20
DRAINS   ?= 5
SOAK     ?= 20s
N        ?= 20
SEED     ?= 0
FACTOR   ?= 4
ONLY     ?=
PKGS     ?= ./transport/websocket ./...
RUN      ?=
LIMIT    ?= 15m

# Test binaries that run at once: most of them wait more than they compute.
AT_ONCE  ?= 4

.PHONY: help setup build man run generate tidy check lint race faults fuzz mutate microbench bench bench-full bench-check bench-size interop page tck cross test steady planted test-long clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | awk -F'\t' '{printf "  make %-11s %s\n", $$1, $$2}'

setup: ## install what the checks need and is missing (Debian packages, Node packages, gopls, h2spec)
	@scripts/setup

build: ## build bin/parley, one static binary
	CGO_ENABLED=0 go build -trimpath -o bin/parley ./cmd/parley

man: ## write the manual pages of all commands to bin/man1
	go run ./cmd/parley man --dir bin/man1

run: ## serve the demo methods on HTTP, TCP and a Unix socket
	go run ./cmd/parley demo

generate: ## run go generate; fails if that changes a file
	scripts/unchanged go generate ./...

tidy: ## fails if a go.mod is not what the code needs
	@failed=0; for module in . bench interop tools; do \
		(cd $$module && go mod tidy -diff) || { failed=1; echo "$$module/go.mod is not what the code needs; run: cd $$module && go mod tidy" >&2; }; \
	done; exit $$failed

check: ## quick, for the packages that changed since main and those that import them (ALL=1: all): gofmt, vet, lint, tests without -race
	@scripts/check

lint: ## gofmt, go vet, the linters of .golangci.yml, and plain English (tools/words)
	scripts/lint

# The parts of make test do not vet: lint applies the same analyzers.

# These tests run without the race detector in make test: tests of memory bounds, of long texts and of the source, and scripts
# of short commands. make test-long also runs them with it (SKIP=).
SOURCE_TESTS := TestOnlyJSONRPCWalksJSON|TestEveryPackageExplainsItself|TestEveryHandlerEndsAfterChunked|TestTestsWaitForEvents|TestReports|TestGoroutinesRecover|TestOnePlaceRecovers|TestNothingPrintsByItself|TestFilesAreMadeInOnePlace|TestTestsRunWhole|TestNothingOfThisMachineIsInTheFiles|TestImportsPointInward
SLOW_TESTS   := TestUnreadRejectionsEndTheConnection|TestBatchesWithoutAConnAreBounded|TestRejectionsAreBounded|TestSlowPeersAreReadAtTheirPace|TestPeerThatStopsReadingIsClosed|TestTasksThatAreOverAreBounded|TestSessionsHoldLittle|TestListOfEndlessSize|TestHostileOutputSchema|TestHostileSchemas|TestRequestsOfTheServerWeigh|TestAnnouncedPromptsAreBounded|TestOutputIsBounded|TestBytesOfSessionsAreBounded|TestFlippedByte|TestLargeMessages|TestNothingHiddenReachesATerminal|TestTablesAreBounded|TestSlowButSteadyPeerGetsAll|TestCostIsBounded|TestLongTexts|TestLongKinds|TestLongEncodings|TestLongWider|$(SOURCE_TESTS)
SLOW_SCRIPTS := call|check|config|diff|doctor|edit|errors|gatecheck|help|import|learn|list|man|mcp|mcpask|mcperrors|mcphelp|mistakes|mock|names|output|params|raw|replay|secrets|stdin|test|tls|trace|wrap
SLOW         := ^($(SLOW_TESTS))$$|^TestScripts$$/^($(SLOW_SCRIPTS))$$
SKIP         ?= yes

# Tests that do less under the race detector (race.Enabled) do all of it without.
WHOLE := TestNestedCallsOverPipesDoNotPause|TestAskingAgainstAModel|TestSlowButSteadyPeerGetsResponses|TestNothingHiddenReachesATerminalOfAServer|TestAThousandCallsOnOneConnection|TestAThousandPairsThreeDeep|TestParamsAreReadOnce|TestMutants|TestProfileMutants|TestACorrectServerPasses|TestALongSessionOpensFast

# The packages that contain these tests.
WITHOUT = $(sort $(dir $(shell grep -rlE --include='*_test.go' --exclude-dir=interop --exclude-dir=node_modules 'func ($(SLOW_TESTS)|TestScripts|$(WHOLE))\>' .)))

race: ## the Go tests (or PKGS) under the race detector, in random order; those of WHOLE and SLOW without it
	@failed=0; \
	scripts/gotest race $(PKGS) -race -vet=off -shuffle=on -count=$(COUNT) -p $(AT_ONCE) -timeout $(LIMIT) $(if $(SKIP),-skip '$(SLOW)') || failed=1; \
	scripts/gotest race.whole '$(if $(filter ./...,$(PKGS)),$(WITHOUT),$(PKGS))' -vet=off -shuffle=on -count=$(COUNT) -p $(AT_ONCE) -timeout $(LIMIT) \
		-run '^($(WHOLE))$$|$(SLOW)' || failed=1; \
	exit $$failed

faults: ## calls over faulty lines, killed children, drains under load, memory, a soak of SOAK (20s)
	PARLEY_FAULTS=$(FAULTS) PARLEY_CHILD_KILLS=$(KILLS) PARLEY_DRAINS=$(DRAINS) PARLEY_SOAK=$(SOAK) \
		scripts/gotest faults . -vet=off -count=1 -parallel 9 -timeout 180m -v -run '^(TestFaults|TestChildrenAreKilled|TestDrainUnderLoad|TestSoak|TestNestedCallsFinish|TestWhatAPeerCanMakeUsHold|TestWhatAProtocolMakesUsHold|TestHalfReadMessages)$$' | grep -vE '=== (RUN|PAUSE|CONT|NAME)'

fuzz: ## each fuzz target of the packages that changed, for FUZZTIME (2s); FUZZ=-all for all packages
	scripts/fuzz $(FUZZ) $(FUZZTIME)

mutate: ## N (20) random changes of single lines: the tests must notice nine of ten; SEED chooses them, ONLY the files, FACTOR the time
	go run -C tools ./mutate -n $(N) -seed $(SEED) -factor $(FACTOR) -only '$(ONLY)'

microbench: ## benchmarks of the packages that match BENCH (all), with allocations
	go test -run '^$$' -bench '$(BENCH)' -benchmem -count=$(COUNT) ./...

bench: ## parley beside its peers, a few minutes
	cd bench && go run .

bench-full: ## the same with more rounds, and how cost grows; into bench/report.md, .json and .svg
	cd bench && go run . -full -json report.json -plot report.svg > report.md

bench-check: ## compare with the recorded ratios; fails after a loss of more than 15 %
	cd bench && go run . -check > /dev/null

bench-size: ## how large a TCP client is, and on small systems
	cd bench && go run ./size

# The conformance rules run without the race detector, which makes them four times as expensive; test-long runs them with it.
# The tests of MCP take longest and therefore begin first.
interop: ## our ends against other people's programs
	@cd interop; failed=0; \
	../scripts/gotest interop.whole ./conformance -vet=off -count=1 -timeout 40m $(RUN) & \
	../scripts/gotest interop "./mcp $$(go list ./... | grep -vE '/interop/(page|conformance|mcp)$$' | tr '\n' ' ')" -race -vet=off -count=1 -timeout 40m -p $(AT_ONCE) -parallel 3 $(RUN) || failed=1; \
	wait $$! || failed=1; exit $$failed

page: ## the page: built again without a difference, its own tests, Chromium on it (RUN='-run REGEXP': only these)
	scripts/page $(RUN)

tck: ## the A2A conformance kit; TCK is a checkout of github.com/a2aproject/a2a-tck
	interop/a2a/tck.sh '$(TCK)'

cross: ## the code compiles for the other systems too
	scripts/cross

PARTS := setup+lint generate tidy race fuzz cross faults+interop page

test: ## everything that CI runs; at the end the stages, what failed and how to repeat it
	@scripts/test $(PARTS)

steady: setup ## the tests again and again on a busy machine; none may fail by chance
	scripts/steady

planted: setup ## a failure of each kind: the end of make test must name it
	scripts/planted

test-long: setup ## race tests five times, all of them with the detector, fifty kills, thousands of flipped bytes, steady, faults with a soak of half an hour, each fuzz target for five minutes
	$(MAKE) race COUNT=5 SKIP=
	PARLEY_KILLS=50 PARLEY_FLIPS=2000 go test -count=1 -timeout 60m -run 'Kill|Flipped' ./store/sqlite ./orchestrator
	PARLEY_KILLS=200 go test -count=1 -timeout 60m -run 'TestKilled|TestDeath' ./cmd/parley ./internal/x/proc
	PARLEY_KILLS=100 go test -count=1 -timeout 60m -run 'TestKill$$' ./internal/bridge
	cd interop && go test -race -count=1 -timeout 60m ./conformance
	cd interop && PARLEY_LONG=1 go test -count=1 -run TestLibraries .
	cd interop && PARLEY_LONG=1 go test -count=1 -run 'TestFlood|TestLongSession|TestFirstPaint' ./page
	PARLEY_LONG=1 $(MAKE) faults FAULTS=100000 KILLS=200 DRAINS=50 SOAK=30m
	$(MAKE) fuzz FUZZ=-all FUZZTIME=5m
	$(MAKE) mutate N=100
	$(MAKE) planted steady

clean: ## remove what was built here
	rm -rf bin .cache
