# Every recipe sets up what it needs: a clean clone, make and Python 3.11 or newer are enough.

PYTHON ?= python3
ARGS ?=

BIN := .venv/bin
BENCH := .venv-bench/bin
FAISS := .venv-faiss/bin
EVIDENCE := .venv-evidence/bin
DOCS := .venv-docs/bin
TORCH := .venv-torch/bin

# Numba's cache notices a change in the file of a kernel, but not in a kernel that it imports and
# inlines. So the folder of the cache is named after the text of all kernels.
export NUMBA_CACHE_DIR := $(CURDIR)/.cache/numba-$(shell cat src/likewise/search/kernels/*.py 2>/dev/null | cksum | cut -d' ' -f1)

# Tests start hundreds of processes. Without bytecode each of them parses every package that it imports.
unexport PYTHONDONTWRITEBYTECODE

# The hash of torch 2.13.0+cpu for Python 3.11 on x86-64 Linux; see requirements/cpu_only.awk. With a
# new version of torch in requirements/torch.in, this changes too.
TORCH_FOR_CPU := 6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b

INSTALL := sh requirements/install.sh

# The entry kernels that the demo calls; the others are compiled when something needs them.
DEMO_KERNELS := decide search_best maintain_tree

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help kernels demo test test-long test-slow test-torch check lint format types imports golden fix bench paper evidence docs pin clean

help:  ## list the recipes (this list)
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo '  PYTHON=python3.12 picks the Python of a new environment.'
	@echo '  ARGS="..." is passed on by demo, test, test-long, test-slow, test-torch, bench, paper and evidence.'

kernels: .venv/project  ## compile the kernels for this machine, unless they are (src/likewise/search/kernels/built)
	@$(BIN)/python -m likewise.search.kernels.building

demo: .venv/demo-project  ## show what likewise does on a small stream of decisions
	@$(BIN)/python -m likewise.search.kernels.building $(DEMO_KERNELS)
	@$(BIN)/likewise demo $(ARGS)

# Each core has a process of its own, so the libraries of the field are to use one each. Tests wait for
# disks and for processes that they start a third of the time, so there is one process more.
ON_ALL_CORES = OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/pytest --dist loadgroup --no-loadscope-reorder \
	--numprocesses $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 1)')

test: kernels  ## run the tests, except the long and slow ones and those that need torch, on all cores
	$(ON_ALL_CORES) -m "not long and not slow and not torch" $(ARGS)

test-long: kernels .venv-clients/packages  ## run the tests that take longer than a second each, on all cores
	$(ON_ALL_CORES) -m "long and not slow and not torch" $(ARGS)

test-slow: kernels  ## run the slow tests
	$(BIN)/pytest -m "slow and not torch" $(ARGS)

test-torch: kernels .venv-torch/project  ## run the tests that need torch (in an environment of its own, 1.5 GB)
	LIKEWISE_TORCH=required $(TORCH)/pytest -m "torch and not slow" $(shell grep -rl --include='test_*.py' 'pytest\.mark\.torch' tests) $(ARGS)

# The tests that write golden files; `make golden TESTS=tests/rule` rewrites what these say, and
# `make golden TESTS=tests` also removes messages of tests that are gone. Messages of tests that need
# torch: make test-torch ARGS=--golden
TESTS ?= $(shell grep -rlE --include='test_*.py' 'support\.refusals|golden_files' tests)
golden: kernels  ## rewrite the golden files (tests/support/golden_files.py); look at the diff before you commit
	$(ON_ALL_CORES) -m "not slow and not torch" --golden $(TESTS) $(ARGS)

check: lint format types imports test  ## everything that must hold before a change lands

lint: .venv/project  ## look for mistakes and bad habits (ruff)
	$(BIN)/ruff check

format: .venv/project  ## is everything formatted? (ruff; `make fix` formats)
	$(BIN)/ruff format --check

types: .venv/project  ## do the types agree? (mypy --strict)
	$(BIN)/mypy

imports: .venv/project  ## do imports point one way? (import-linter)
	$(BIN)/lint-imports --no-logo --cache-dir .cache/import-linter

fix: .venv/project  ## format, and mend what ruff can mend by itself
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

# CLEMONT: a checkout of the authors' repository, whose newer code is not on the package index.
bench: kernels .venv-bench/project .venv-faiss/packages  ## measure, beside other libraries (in two environments of their own, 0.9 GB)
	PYTHONPATH="$(CURDIR)$(if $(CLEMONT),:$(CLEMONT))" $(BENCH)/python -m benchmarks $(ARGS)

paper: kernels .venv-bench/project  ## reproduce the paper's table and figures from its data (40 minutes, can be resumed)
	PYTHONPATH="$(CURDIR)" $(BENCH)/python -m benchmarks.paper $(ARGS)

evidence: kernels .venv-evidence/project  ## simulate how often the first page is wrong: DATA=folder (an hour)
	PYTHONPATH="$(CURDIR)" $(EVIDENCE)/python -m benchmarks.evidence $(if $(DATA),--data "$(DATA)") $(ARGS)

docs: .venv-docs/project  ## build the documentation: build/docs/index.html
	@rm -rf build/docs .cache/docs
	$(DOCS)/sphinx-build --quiet --fail-on-warning --keep-going --conf-dir docs/site --doctree-dir .cache/docs . build/docs
	@echo "Open build/docs/index.html"

pin: .venv/tools  ## choose newer versions: requirements/*.in become *.txt
	$(call compile,uv)
	$(call compile,dev)
	$(call compile,demo)
	$(call compile,bench)
	$(call compile,evidence)
	$(call compile,faiss)
	$(call compile,docs)
	$(call compile,clients)
	$(call compile,torch)
	$(call compile,serve)
	$(call compile,build)
	@awk -v cpu_build=$(TORCH_FOR_CPU) -f requirements/cpu_only.awk requirements/torch.txt > requirements/torch.txt.new
	@mv requirements/torch.txt.new requirements/torch.txt

clean:  ## remove everything the recipes made
	rm -rf .venv .venv-bench .venv-clients .venv-docs .venv-evidence .venv-faiss .venv-torch .cache .hypothesis build dist src/likewise/search/kernels/built
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# --- environments: two stamps each, one for the pinned packages, one for likewise itself ---
#
# .venv comes first and grows: uv, then what the demo needs, then everything that the tests need.
# The others are made with its uv.

define compile
@cd requirements && ../$(BIN)/uv pip compile --quiet --upgrade --universal --fork-strategy fewest \
	--python-version 3.11 --generate-hashes --no-emit-index-url \
	--custom-compile-command "make pin" $(1).in --output-file $(1).txt
endef

.venv/tools: requirements/uv.txt requirements/demo.txt requirements/dev.txt
	@echo "Setting up .venv ..."
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "likewise needs Python 3.11 or newer, but \"$(PYTHON)\" is not that ($$($(PYTHON) --version 2>&1))." \
		"Name one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -m venv --clear .venv
	@$(INSTALL) .venv --require-hashes -r requirements/uv.txt || echo "There is no uv for this machine: pip installs, which takes minutes."
	@touch $@

.venv/demo-packages: requirements/demo.txt .venv/tools
	@echo "Installing what the demo needs ..."
	@$(INSTALL) .venv --require-hashes -r requirements/demo.txt
	@touch $@

.venv/packages: requirements/dev.txt .venv/demo-packages
	@echo "Installing what the tests need (2 GB) ..."
	@$(INSTALL) .venv --require-hashes -r requirements/dev.txt
	@touch $@

# The newest FAISS has an environment of its own: Clemont, in .venv-bench, holds that one back.
# On Linux, torch.txt takes torch built for the CPU, which the installer has to be told where to
# find, if it is not told already: in a folder (PIP_FIND_LINKS) or from an index.
.venv-bench/packages .venv-clients/packages .venv-docs/packages .venv-evidence/packages .venv-faiss/packages .venv-torch/packages: .venv-%/packages: requirements/%.txt .venv/tools
	@echo "Setting up .venv-$* ..."
	@$(BIN)/python -m venv --clear .venv-$*
	@$(INSTALL) .venv-$* --require-hashes -r requirements/$*.txt
	@touch $@

.venv/project .venv-bench/project .venv-docs/project .venv-evidence/project .venv-torch/project .venv/demo-project: %project: %packages pyproject.toml src/likewise/__init__.py
	@$(INSTALL) $(@D) --no-build-isolation --no-deps --editable .
	@touch $@
