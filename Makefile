# Everything a developer runs. `make` alone prints the list.
#
# One environment, .venv, in three steps that are each done once and remembered by a stamp file:
#   light  reprior[cli,fast,sklearn], enough for the demo
#   dev    tests, linters, documentation, PyTorch, JAX and ONNX on top
#   heavy  boosting libraries, networks of others and the driver of a browser, for `make test-all`
# A stamp is older than pyproject.toml or constraints.txt only when one of them changed.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check
INSTALL := $(PIP) install --quiet --constraint constraints.txt

LIGHT  := $(VENV)/.stamp-light
DEV    := $(VENV)/.stamp-dev
HEAVY  := $(VENV)/.stamp-heavy
PYTEST := $(BIN)/python -m pytest
WORKERS ?= auto
PARALLEL := --numprocesses $(WORKERS)
# PyTorch, JAX, BLAS and numba would each start a thread per core in every worker.
THREADS := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

# Where a line without a test is an error.
EVERY_LINE := src/reprior/core/*,src/reprior/tuning/*

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## print this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# ------------------------------------------------------------------------------ environment

$(LIGHT): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "reprior needs Python 3.11 or newer. Try: make PYTHON=python3.12" >&2; exit 1; }
	@echo "building $(VENV): light"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(INSTALL) --upgrade pip hatchling editables
	@$(INSTALL) --no-build-isolation --editable '.[cli,fast,sklearn]'
	@touch $@

$(DEV): $(LIGHT)
	@echo "building $(VENV): development tools, PyTorch (CPU), JAX, ONNX; minutes the first time"
	@$(INSTALL) --group dev
	@touch $@

$(HEAVY): $(DEV)
	@echo "building $(VENV): boosting libraries, networks of others and the browser's driver"
	@$(INSTALL) --group heavy
	@touch $@

.PHONY: setup
setup: $(DEV) ## build the development environment in .venv

# ------------------------------------------------------------------------------------- work

.PHONY: demo
demo: $(LIGHT) ## show the main job on real data (light: no PyTorch, no JAX)
	@$(BIN)/reprior demo -o build/demo

.PHONY: test
test: lint ## everything: lint, types, layers, tests, doctests, docs' examples, coverage
	@$(THREADS) $(PYTEST) tests src $(PARALLEL) --cov --cov-report=
	@# The examples of one page use each other's names: one after the other, in one process.
	@$(THREADS) $(PYTEST) README.md docs --cov --cov-append --cov-report=
	@$(BIN)/python -m coverage report --include='$(EVERY_LINE)' --fail-under=100

.PHONY: test-all
test-all: $(HEAVY) ## the heavy tests alone (none of them is run by `make test`)
	@$(PYTEST) tests -m heavy

.PHONY: lint
lint: $(DEV) ## ruff, mypy --strict, import-linter
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy --strict src
	@$(BIN)/lint-imports

.PHONY: format
format: $(DEV) ## rewrite the code in the house format
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

.PHONY: docs
docs: $(DEV) ## build the documentation into site/, warnings are errors
	@$(BIN)/mkdocs build --strict

.PHONY: docs-serve
docs-serve: $(DEV) ## write documentation with live reload
	@$(BIN)/mkdocs serve

.PHONY: bench
bench: $(DEV) ## measure ratios against named peers
	@$(BIN)/python -m benchmarks

.PHONY: clean
clean: ## remove everything that can be built again
	rm -rf $(VENV) build dist site .coverage .coverage.* .hypothesis .import_linter_cache \
		.mypy_cache .pytest_cache .ruff_cache
	find src tests docs examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
