# On a fresh machine `make try`, `make demo` and `make test` set up what they need.
SHELL := /bin/bash
PY := .venv/bin/python
COMPILE := $(PY) -m uv pip compile --generate-hashes --no-emit-index-url --no-header --python-version 3.11 --universal --quiet
export PYTHONDONTWRITEBYTECODE := 1
# Tests are compiled once, and not in each run. The lab's servers, kubectl and helm collect garbage
# less often: most of them live for a test or less.
PYTEST := PYTHONDONTWRITEBYTECODE= GOGC=400 $(PY) -m pytest --dist loadscope

.DEFAULT_GOAL := help
.PHONY: help try demo test soak seconds docs lint unit mutants compiled lab bench setup binaries manifests lock image image-test clean

help: ## Show what there is to run
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Make .venv and install everything from the lock
	@bash lab/bootstrap.sh

binaries: setup ## Find or build the control plane's binaries
	@$(PY) -m lab binaries

try: ## What doctor, plan and report say about an example; no cluster, no build, under a minute
	@bash lab/try.sh

demo: binaries ## Both main jobs on a real control plane, in 7 to 8 minutes
	@$(PY) -m lab demo

test: setup ## Lint, then all tests, seven at a time as most of them wait, on the real control plane where they need one
	@$(MAKE) --no-print-directory --jobs 2 lint compiled
	@$(PY) -m lab binaries --tests
	@$(PYTEST) --numprocesses 7

soak: binaries ## The test of broken hardware on a real Karpenter for ten minutes instead of 25 seconds
	@$(PYTEST) tests/lab/test_broken_hardware.py -k lost_gpu --watch-seconds 600 --timeout 1200

seconds: binaries ## As test, and write what the slow tests took to tests/lab/seconds.json, by which they are dealt
	@$(PYTEST) --numprocesses 7 --write-seconds

unit: setup ## The quick tests, two at a time, in one to two minutes: no binaries, no whole simulations, drawings and commands
	@$(PYTEST) tests/unit -m "not promtool and not whole" --hypothesis-profile quick --numprocesses 2

mutants: setup ## Change the pure modules in 150 places, one at a time, and tell which no unit test notices; 20 minutes at most
	@$(PY) -m tools.mutants --count $(or $(COUNT),150) --minutes 18 $(if $(SEED),--seed $(SEED)) $(if $(SKIP),--skip $(SKIP)) --floor 95

# Beside lint: seven workers that begin on a new clone would each compile every test, 40 s of CPU more.
compiled: setup
	@$(PYTEST) --collect-only --quiet > /dev/null || true

lint: setup ## Style, types, the import contract and the house rules
	@$(PY) -m ruff check . && $(PY) -m ruff format --check . && $(PY) -m mypy && .venv/bin/lint-imports && $(PY) -m tools.size_and_name_rules

lab: binaries ## A control plane to play with; prints its KUBECONFIG and how to stop it
	@$(PY) -m lab up

bench: binaries ## Every benchmark, each with its floor and goal; most of a day
	@missed=; for name in trails decode decide preempt fleet spread pacing scaleup herd preview truth takeover removal rush; do \
	  $(PY) -m benchmarks.$$name || missed="$$missed $$name"; \
	done; [ -z "$$missed" ] || { echo "below a floor, or failed:$$missed"; exit 1; }

manifests: setup ## Write what is generated from manifests/: the chart's copies, schema and values, the table of rights, docs/values.md, parts of docs/install.md and docs/platforms.md
	@$(PY) -m lab.manifests

docs: ## The documentation as a site in build/site, every link checked
	@bash lab/bootstrap.sh .venv-docs requirements-docs.lock "about 20 MB"
	@PYTHONDONTWRITEBYTECODE= NO_MKDOCS_2_WARNING=1 .venv-docs/bin/python -m mkdocs build
	@echo "build/site/index.html; with search: python3 -m http.server --directory build/site"

lock: setup ## Resolve pyproject.toml anew into requirements*.lock
	@$(COMPILE) pyproject.toml --group dev --output-file requirements.lock
	@$(COMPILE) pyproject.toml --constraint requirements.lock --output-file requirements-image.lock
	@$(COMPILE) pyproject.toml --extra report --constraint requirements.lock --output-file requirements-report.lock
	@$(COMPILE) --group docs --constraint requirements.lock --output-file requirements-docs.lock
	@$(COMPILE) --group image --constraint requirements.lock --output-file requirements-image-build.lock

image: setup ## Build the image twice and compare, write SBOM and provenance; needs root and buildah: docs/image.md
	@$(PY) -m lab image $(if $(ADVISORIES),--advisories "$(ADVISORIES)")

image-test: image ## Run the image on real kubelets, containerd and runc; needs root
	@$(PY) -m lab binaries --tests
	@$(PY) -m pytest tests/image

clean: ## Remove .venv, what was built and caches of tools; the binaries' cache stays
	@rm -rf .venv .venv-try .venv-docs build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
