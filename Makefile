# Two commands do all the set-up on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Two workers by default: statistical tests are independent of each other.
WORKERS ?= 2

.PHONY: help demo system check quick test test-long test-versions lint format benchmarks docs paper paper-full clean

help:  ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[dev,all,demo]"
	@touch $@

$(VENV)/benchmarks: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --editable ".[benchmarks]"
	@touch $@

# The demo needs neither Spark nor PostgreSQL, nor what the tests need.
$(VENV)/demo: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[demo]"
	@touch $@

demo: $(VENV)/demo  ## the main job: a private table of real flights, and its report
	@$(BIN)/python examples/flights.py
	@$(BIN)/osgt plan --query examples/flights.toml
	@$(BIN)/osgt release --query examples/flights.toml --overwrite
	@$(BIN)/python examples/flights_truth.py

system:
	@sh tests/system_packages.sh

# Quick tests of what is seen from outside; the others are for `make test`.
QUICK := $(wildcard tests/test_*.py) tests/docs/test_architecture.py tests/golden tests/mechanism tests/query

check: $(VENV)/installed  ## lint, types and quick tests that need neither server nor browser
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target lint quick

quick: $(VENV)/installed
	$(BIN)/python -m pytest -n $(WORKERS) -m "not long and not server" $(QUICK)

test: lint system  ## lint, type-check and run the tests on DuckDB, Spark and PostgreSQL
	$(BIN)/python -m pytest -n $(WORKERS) -m "not long"

test-long: $(VENV)/installed system  ## the statistical runs of many minutes
	$(BIN)/python -m pytest -n $(WORKERS) -m long

# The oldest versions that pyproject.toml allows, and the newest that there are, each in an environment of its own.
test-versions:  ## `make check` with the lowest and with the newest versions of all dependencies
	@for resolution in lowest-direct highest; do \
		$(PYTHON) -m venv .venv-$$resolution && .venv-$$resolution/bin/python -m pip install --quiet uv && \
		VIRTUAL_ENV=.venv-$$resolution .venv-$$resolution/bin/uv pip install --quiet --resolution $$resolution \
			--editable ".[dev,all,demo]" && touch .venv-$$resolution/installed && \
		$(MAKE) --no-print-directory VENV=.venv-$$resolution check || exit 1; \
	done

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/installed  ## put the code into its usual form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(VENV)/docs: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	@touch $@

docs: $(VENV)/docs  ## build the documentation into site/, warnings are errors
	$(BIN)/python -m osgt.query.file.reference docs/reference
	$(BIN)/python -m osgt.cli.documents docs/reference
	$(BIN)/python examples/notebooks.py docs/notebooks
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "site/index.html"

paper: $(VENV)/installed  ## recompute every figure and number of the paper into build/paper
	$(BIN)/osgt paper --overwrite --out build/paper

paper-full: $(VENV)/installed  ## the same with 10⁹ applications in the experiment: a few minutes
	$(BIN)/osgt paper --full --overwrite --out build/paper

benchmarks: $(VENV)/benchmarks  ## measure every claim against its peers
	@for script in $(filter-out benchmarks/tables_engines.py benchmarks/measure.py,$(wildcard benchmarks/*.py)); do echo "== $$script"; $(BIN)/python $$script || exit 1; done

clean:  ## remove everything that can be built again
	rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
