# Everything a developer runs. `make` alone prints the list.
#
# One environment, .venv, in steps that are each done once and remembered by a stamp file:
#   tools  the environment and the build tools
#   light  reprior[cli,sklearn] with its compiled kernels, enough for the demo
#   dev    the lab with PyTorch, tests, linters, documentation, JAX and ONNX on top
#   heavy  boosting libraries, engines of the recipes and a browser's driver, for `make test-all`
# A second one, .venv-lab, has only what `pip install . ./lab` brings: the paper's protocols are tried
# there by `make test-all`.
# A stamp is older than pyproject.toml or constraints.txt only when one of them changed; `light` is
# also done again when a file in src/native changed.
#
# Without a C++ compiler the kernels are left out and array code does their work. `make test` and
# `make native` set REPRIOR_NATIVE=require: there, kernels that do not compile are an error.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check
INSTALL := $(PIP) install --quiet --constraint constraints.txt

TOOLS  := $(VENV)/.stamp-tools
LIGHT  := $(VENV)/.stamp-light
DEV    := $(VENV)/.stamp-dev
HEAVY  := $(VENV)/.stamp-heavy
LAB    := .venv-lab
NATIVE := $(wildcard src/native/*.cpp src/native/*.h src/native/CMakeLists.txt)
PYTEST := $(BIN)/python -m pytest
WORKERS ?= auto
PARALLEL := --numprocesses $(WORKERS)
# PyTorch, JAX and BLAS would each start a thread per core in every worker.
THREADS := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

# Tests start hundreds of processes: without bytecode in files each would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

# Where a line without a test is an error.
EVERY_LINE := src/reprior/core/*,src/reprior/profile/*,src/reprior/tuning/*

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## print this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# ------------------------------------------------------------------------------ environment

$(TOOLS): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "reprior needs Python 3.11 or newer. Try: make PYTHON=python3.12" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@# The second line builds reprior, the third the lab.
	@$(INSTALL) --upgrade pip
	@$(INSTALL) scikit-build-core hatch-fancy-pypi-readme nanobind cmake ninja
	@$(INSTALL) hatchling editables
	@touch $@

# What an earlier build left must not stand in for kernels that do not compile.
$(LIGHT): $(TOOLS) $(NATIVE)
	@echo "building $(VENV): light, about a minute"
	@rm -f src/reprior/_native.*so
	@PATH="$(abspath $(BIN)):$$PATH" $(INSTALL) --no-build-isolation --editable '.[cli,sklearn]'
	@ls src/reprior/_native.*so >/dev/null 2>&1 || echo "The kernels could not be compiled: array code does their work, more slowly. Run \`make native\` to see why."
	@touch $@

$(DEV): $(TOOLS) lab/pyproject.toml | $(LIGHT)
	@echo "building $(VENV): the lab with PyTorch (CPU), development tools, JAX, ONNX; minutes the first time"
	@$(INSTALL) --no-build-isolation --editable ./lab --group dev
	@touch $@

$(HEAVY): $(DEV)
	@echo "building $(VENV): boosting libraries, engines of the recipes, the browser's driver"
	@$(INSTALL) --group heavy
	@touch $@

$(LAB)/.stamp: pyproject.toml lab/pyproject.toml constraints.txt $(NATIVE) $(shell find src/reprior lab/src -name '*.py' -o -name '*.js*' -o -name '*.html')
	@echo "building $(LAB): what pip install . ./lab brings, and nothing else"
	@test -x $(LAB)/bin/python || $(PYTHON) -m venv $(LAB)
	@$(LAB)/bin/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt . ./lab
	@$(LAB)/bin/python -m pip --disable-pip-version-check install --quiet --force-reinstall --no-deps . ./lab
	@touch $@

.PHONY: setup
setup: $(DEV) ## build the development environment in .venv

# ------------------------------------------------------------------------------------- work

.PHONY: demo
demo: $(LIGHT) ## show the main job on real data (light: no PyTorch, no JAX)
	@$(BIN)/reprior --version
	@$(BIN)/reprior demo -o build/demo

.PHONY: native
native: export REPRIOR_NATIVE = require
native: $(TOOLS) ## compile the kernels, only what changed, and show the compiler's output
	@PATH="$(abspath $(BIN)):$$PATH" $(PIP) install --verbose --no-deps --no-build-isolation --editable . \
		|| { echo "The kernels need GCC 12 or newer, or Clang 14 or newer, on the PATH (or in CXX)." >&2; exit 1; }
	@touch $(LIGHT)

.PHONY: test
test: export REPRIOR_NATIVE = require
test: lint ## lint, types, layers, the library's tests, doctests, docs' examples, coverage
	@$(THREADS) $(PYTEST) tests src $(PARALLEL) --cov --cov-report=
	@# The examples of one page use each other's names: one after the other, in one process.
	@$(THREADS) $(PYTEST) README.md docs --cov --cov-append --cov-report=
	@$(BIN)/python -m coverage report --include='$(EVERY_LINE)' --fail-under=100

.PHONY: test-all
test-all: export REPRIOR_NATIVE = require
test-all: $(HEAVY) $(LAB)/.stamp sanitize packages ## what `make test` leaves out: the lab, heavy tests, sanitized kernels, packaging
	@$(THREADS) $(PYTEST) lab $(PARALLEL)
	@REPRIOR_PYTHON=$(abspath $(LAB))/bin/python $(PYTEST) tests lab -m heavy

# The wheel is built once, from the source distribution and with the build tools that pyproject.toml
# names, so that a missing file or tool shows. It is installed into a clean environment and used from
# another folder, and once more with the oldest versions that pyproject.toml allows.
PACKAGES := build/packages
OLDEST := .venv-oldest
OLDEST_TESTS := tests/files/test_scores.py tests/files/test_output.py tests/files/test_archive.py \
	tests/core/test_kernels.py tests/profile/test_sweep.py tests/sklearn/test_folding.py \
	tests/onnx/test_folding.py tests/cli/test_fit.py tests/cli/test_apply.py tests/report/test_page.py
CLEAN_PIP = -m pip --disable-pip-version-check install --quiet
.PHONY: packages
packages: export REPRIOR_NATIVE = require
packages: $(HEAVY) ## build source distribution and wheel, try them in a clean environment, and with the oldest dependencies
	@rm -rf $(PACKAGES) && mkdir -p $(PACKAGES)
	@PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m build --sdist --no-isolation --outdir $(PACKAGES) . >$(PACKAGES)/build.log 2>&1 \
		|| { cat $(PACKAGES)/build.log; exit 1; }
	@$(BIN)/python tests/packaging/check_sdist.py $(PACKAGES)/reprior-*.tar.gz
	@$(PIP) wheel --quiet --no-deps --wheel-dir $(PACKAGES) $(PACKAGES)/reprior-*.tar.gz
	@$(BIN)/python -m twine check --strict $(PACKAGES)/reprior-*
	@echo "trying the wheel, without and with [cli,sklearn]"
	@$(PYTHON) -m venv $(PACKAGES)/wheel && $(PACKAGES)/wheel/bin/python $(CLEAN_PIP) $(PACKAGES)/*.whl
	@cd $(PACKAGES) && wheel/bin/python $(CURDIR)/tests/native/smoke.py >/dev/null
	@$(PACKAGES)/wheel/bin/python $(CLEAN_PIP) "$$(ls $(PACKAGES)/*.whl)[cli,sklearn]"
	@cd $(PACKAGES) && wheel/bin/reprior demo --quiet -o demo
	@$(MAKE) --no-print-directory $(OLDEST)/.stamp
	@$(OLDEST)/bin/python $(CLEAN_PIP) --force-reinstall --no-deps $(PACKAGES)/*.whl
	@$(THREADS) $(OLDEST)/bin/python -m pytest -o filterwarnings=default $(OLDEST_TESTS) $(PARALLEL)

$(OLDEST)/.stamp: pyproject.toml tests/packaging/lower_bounds.py
	@echo "building $(OLDEST): the oldest versions that pyproject.toml allows"
	@rm -rf $(OLDEST) && $(PYTHON) -m venv $(OLDEST)
	@$(BIN)/python tests/packaging/lower_bounds.py >$(OLDEST)/requirements.txt
	@$(OLDEST)/bin/python $(CLEAN_PIP) --requirement $(OLDEST)/requirements.txt
	@touch $@

.PHONY: test-night
test-night: export REPRIOR_NATIVE = require
test-night: $(DEV) ## every property test with 2,000 examples; hours
	@HYPOTHESIS_PROFILE=thorough $(THREADS) $(PYTEST) tests $(PARALLEL) --timeout 7200

# Failing files are written to build/fuzz/failures, the totals to build/fuzz/totals.json.
.PHONY: fuzz
fuzz: $(DEV) ## mutate files of every format until Ctrl-C; FORMATS="npz csv" picks some
	@$(THREADS) $(BIN)/python -m tests.fuzz $(FORMATS)

# A copy of the sources with a library that stops at the first access out of bounds, use of freed
# memory or undefined operation. Python itself is not built that way, so the run-time library of the
# sanitizer is loaded before it. Leaks are not reported: Python keeps memory until it ends.
SANITIZED := build/sanitize
# Every kernel is called by one of these, on shapes made to catch it out.
SANITIZED_TESTS := tests/native tests/metrics tests/profile/test_sweep.py tests/profile/test_binning.py \
	tests/tuning/test_bias_search.py
SANITIZED_PATH = PYTHONPATH=$(abspath $(SANITIZED))/src:$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
.PHONY: sanitize
sanitize: export REPRIOR_NATIVE = require
sanitize: $(DEV) ## run the tests that call kernels under AddressSanitizer and UBSan
	@mkdir -p $(SANITIZED)/src
	@PATH="$(abspath $(BIN)):$$PATH" cmake -S src/native -B $(SANITIZED)/native -G Ninja \
		-DPython_EXECUTABLE=$(abspath $(BIN))/python -DREPRIOR_SANITIZE=ON >/dev/null
	@PATH="$(abspath $(BIN)):$$PATH" cmake --build $(SANITIZED)/native
	@rm -rf $(SANITIZED)/src/reprior && cp -R src/reprior $(SANITIZED)/src/
	@rm -f $(SANITIZED)/src/reprior/_native.*so && cp $(SANITIZED)/native/_native.*so $(SANITIZED)/src/reprior/
	@# The editable installation's import hook would win over the path: -S leaves it out.
	@$(SANITIZED_PATH) $(BIN)/python -S -c 'import reprior; assert "$(SANITIZED)" in reprior.__file__, reprior.__file__'
	@$(THREADS) $(SANITIZED_PATH) ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
		LD_PRELOAD="$$($${CXX:-c++} -print-file-name=libasan.so) $$($${CXX:-c++} -print-file-name=libstdc++.so)" \
		$(BIN)/python -S -m pytest $(SANITIZED_TESTS)

.PHONY: lint
lint: $(DEV) ## ruff, mypy --strict, stubtest, import-linter
	@ls src/reprior/_native.*so >/dev/null 2>&1 || $(MAKE) native
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy --strict src lab/src
	@$(BIN)/python tests/native/check_stub.py
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
	rm -rf $(VENV) $(LAB) $(OLDEST) build dist site .coverage .coverage.* .hypothesis .import_linter_cache \
		.mypy_cache .pytest_cache .ruff_cache
	rm -f src/reprior/_native.*so
	find src/native/editable -mindepth 1 ! -name CMakeLists.txt ! -name .gitignore -delete
	find src lab tests docs examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
