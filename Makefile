# Everything that one does with this repository. `make` lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Tools are pinned in tools.mod and built once into a cache outside the tree.
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/pitstop
TOOLS := $(CACHE)/tools/$(shell sha256sum tools.mod | cut -c1-16)
LINT := $(TOOLS)/golangci-lint
CONTROLLER_GEN := $(TOOLS)/controller-gen

VERSION ?= $(or $(shell git describe --tags --always --dirty 2>/dev/null),dev)
BINARIES := pitstop-agent pitstop-coordinator kubectl-pitstop
LAB := go run ./test/lab/cmd/lab

# What NVIDIA's header calls deprecated are functions that nobody here calls: a hundred warnings at each build.
export CGO_CFLAGS ?= -O2 -g -Wno-deprecated-declarations

# The packages with tests that need the lab.
LAB_PACKAGES = $(shell grep -rl --include='*_test.go' --exclude-dir=out '^//go:build lab' . | xargs -r -n1 dirname | sort -u)

# GO_TEST_FLAGS is for a person who wants to add -v or -run.
GO_TEST_FLAGS ?=
GO_TEST := go test -race -shuffle=on $(GO_TEST_FLAGS)

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build the binaries into bin/; the GPU probe only where there is gcc
	@mkdir -p bin
	CGO_ENABLED=0 go build -buildvcs=false -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/ $(addprefix ./cmd/,$(BINARIES))
	@if command -v gcc >/dev/null; then $(MAKE) --no-print-directory build-probe; \
		else echo 'WARNING: no gcc, so bin/pitstop-gpu-probe is NOT built' >&2; fi

# Functions that a driver lacks must not be looked for before they are called: hence lazy binding, whatever the
# distribution's gcc prefers.
.PHONY: build-probe
build-probe: ## Build bin/pitstop-gpu-probe, which loads NVML (gcc)
	@mkdir -p bin
	CGO_ENABLED=1 go build -buildvcs=false -trimpath -ldflags "-s -w -extldflags=-Wl,-z,lazy" -o bin/ ./cmd/pitstop-gpu-probe

.PHONY: generate
generate: $(CONTROLLER_GEN) ## Write the generated files anew
	$(CONTROLLER_GEN) object paths=./api/...
	$(CONTROLLER_GEN) crd:maxDescLen=0,generateEmbeddedObjectMeta=true paths=./api/... output:crd:dir=deploy/crd
	go test ./cmd/kubectl-pitstop/diagnose -run TestHandbookListsEveryReason -count=1 -rewrite

.PHONY: format
format: $(LINT) ## Format the code
	$(LINT) fmt

.PHONY: check
check: check-format check-generated check-lint ## Check format, generated files and lint

.PHONY: check-format
check-format: $(LINT)
	$(LINT) fmt --diff

.PHONY: check-lint
check-lint: $(LINT)
	$(LINT) run ./...

.PHONY: check-generated
check-generated: $(CONTROLLER_GEN)
	@fresh=$$(mktemp -d); trap 'rm -rf "$$fresh"' EXIT; \
	$(CONTROLLER_GEN) object paths=./api/... output:object:dir="$$fresh/api"; \
	$(CONTROLLER_GEN) crd:maxDescLen=0,generateEmbeddedObjectMeta=true paths=./api/... output:crd:dir="$$fresh/crd"; \
	{ diff -u api/v1alpha1/zz_generated.deepcopy.go "$$fresh/api/zz_generated.deepcopy.go" && diff -ru -x kustomization.yaml deploy/crd "$$fresh/crd"; } \
		|| { echo 'generated files are not up to date: run make generate' >&2; exit 1; }
	go test ./cmd/kubectl-pitstop/diagnose -run TestHandbookListsEveryReason -count=1

.PHONY: test-unit
test-unit: ## Run the tests that need nothing but Go and gcc
	@failed=0; \
	.ci/suite test-unit $(GO_TEST) $$(go list ./... | grep -vx pitstop.dev/$(UNRACED)) || failed=1; \
	.ci/suite "test-unit $(UNRACED)" go test -shuffle=on $(GO_TEST_FLAGS) ./$(UNRACED) || failed=1; \
	exit $$failed

# Long simulations are not raced: they run on one goroutine each, and ten times as slow with it.
UNRACED := test/sim/history

.PHONY: test
test: lab-ready ## Run all tests, the simulation and those on the lab included (root)
	@failed=0; \
	$(MAKE) --no-print-directory test-unit || failed=1; \
	.ci/suite sim $(MAKE) --no-print-directory sim || failed=1; \
	$(MAKE) --no-print-directory test-lab || failed=1; \
	exit $$failed

# One package after the other: there is one lab. A failure does not keep the others from running.
.PHONY: test-lab
test-lab: lab-ready
	@failed=0; \
	for package in $(LAB_PACKAGES); do \
		.ci/suite "lab $$package" $(GO_TEST) -count=1 -tags lab -timeout 60m "$$package" || failed=1; \
	done; \
	exit $$failed

.PHONY: test-soak
test-soak: lab-ready ## Kill each component at each stage of a rollout on the lab (root)
	.ci/suite soak $(GO_TEST) -count=1 -tags lab -timeout 60m -v ./test/rollout -run TestWhateverIsKilledInARollout -soak

.PHONY: lab-ready
lab-ready: ## Install and build what the lab needs (root)
	@[ "$$(id -u)" = 0 ] || { echo 'the lab runs containers on this machine: run this as root' >&2; exit 1; }
	@.ci/suite lab-build $(LAB) build

.PHONY: lab-up
lab-up: lab-ready ## Start a real two-node Kubernetes on this machine (root)
	$(LAB) up

.PHONY: lab-gpus
lab-gpus: lab-ready ## Hold the lab with Pitstop, stub GPUs and an engine on two of them, until it is ended (root)
	@mkdir -p bin
	go build -buildvcs=false -o bin/gpus ./test/gpu/cmd/gpus
	@exec bin/gpus run

.PHONY: lab-down
lab-down: ## End the lab and remove all of it (root)
	$(LAB) down

.PHONY: demo
demo: lab-ready ## Show a ModelServing updated in place under load, a wrong tag, and a recreate (root)
	go run ./test/demo

# SEEDS=n plays n histories, SEED=k replays one with all that happened in it, FIRST=k is where SEEDS start.
SEEDS ?= 2000
FIRST ?= 1
.PHONY: sim
sim: ## Simulate the coordinator: SEEDS=2000 histories, or SEED=k replays one
	@go run ./test/sim/cmd/sim $(if $(SEED),-seed $(SEED),-seeds $(SEEDS) -first $(FIRST))

.PHONY: bench
bench: lab-ready ## Measure on the lab and write out/bench.json (root); some alone: BENCH="-only unit"
	@mkdir -p out
	go run ./test/bench $(BENCH)

$(LINT):
	@.ci/tool $@ sigs.k8s.io/kube-api-linter/cmd/golangci-lint-kube-api-linter

$(CONTROLLER_GEN):
	@.ci/tool $@ sigs.k8s.io/controller-tools/cmd/controller-gen
