# What one does with this checkout. `make` alone lists the targets.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

# The Go that is installed is the Go that is used: no target downloads a toolchain.
GOTOOLCHAIN ?= local
export GOTOOLCHAIN

FUZZTIME ?= 3s
BENCH    ?= .
COUNT    ?= 1

.PHONY: help setup build run generate tidy lint race fuzz microbench bench bench-full bench-check bench-size interop page tck cross test test-long clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | awk -F'\t' '{printf "  make %-11s %s\n", $$1, $$2}'

setup: ## install what the checks need and is missing (Debian packages, Node packages, gopls)
	@scripts/setup

build: ## build bin/parley, one static binary
	CGO_ENABLED=0 go build -trimpath -o bin/parley ./cmd/parley

run: ## serve the demo methods on HTTP, TCP and a Unix socket
	go run ./cmd/parley demo

generate: ## run go generate; fails if that changes a file
	scripts/unchanged go generate ./...

tidy: ## fails if a go.mod says more or less than the code needs
	go mod tidy -diff
	cd bench && go mod tidy -diff
	cd interop && go mod tidy -diff

lint: ## gofmt, go vet and the linters of .golangci.yml
	scripts/lint

race: ## all Go tests under the race detector, in random order
	scripts/gotest race ./... -race -shuffle=on -count=$(COUNT)

fuzz: ## each fuzz target for FUZZTIME (3s)
	scripts/fuzz $(FUZZTIME)

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

interop: ## our ends against other people's programs
	cd interop && ../scripts/gotest interop "$$(go list ./... | grep -v '/interop/page$$' | tr '\n' ' ')" -race -count=1 -timeout 40m

page: ## the page: built again without a difference, its own tests, Chromium on it
	scripts/page

tck: ## the A2A conformance kit; TCK is a checkout of github.com/a2aproject/a2a-tck
	interop/a2a/tck.sh '$(TCK)'

cross: ## the code compiles for the other systems too
	scripts/cross

test: ## everything that CI runs; with CI=true a failed test runs once more, see scripts/gotest
	@rm -rf .cache/log
	@$(MAKE) --no-print-directory setup generate tidy lint race fuzz cross interop page
	@if [ -s .cache/log/by-chance ]; then echo "tests that passed only by chance:"; cat .cache/log/by-chance; fi

test-long: setup ## race tests five times, fifty kills, thousands of flipped bytes, each fuzz target for five minutes
	$(MAKE) race COUNT=5
	PARLEY_KILLS=50 PARLEY_FLIPS=2000 go test -count=1 -timeout 60m -run 'Kill|Flipped' ./store/sqlite ./orchestrator
	$(MAKE) fuzz FUZZTIME=5m

clean: ## remove what was built here
	rm -rf bin .cache
