# Two commands do all the set-up on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Two workers by default: statistical tests are independent of each other.
WORKERS ?= 2

.PHONY: help demo system check quick test test-long mutants test-versions lint format benchmarks docs package sbom paper paper-full clean

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

demo: $(VENV)/demo  ## the main job: a private table of real flights beside the truth, and its report
	@$(BIN)/python examples/demo.py

system:
	@sh tests/system_packages.sh

# Quick tests of what is seen from outside; the others are for `make test`, as those that start many processes.
QUICK := $(filter-out tests/test_start_up.py tests/test_families.py tests/test_r_client.py,$(wildcard tests/test_*.py)) tests/docs/test_architecture.py tests/golden tests/mechanism tests/query

check: $(VENV)/installed  ## lint, types and quick tests that need neither server nor browser
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target lint quick

quick: $(VENV)/installed
	$(BIN)/python -m pytest -n $(WORKERS) -m "not long and not server" $(QUICK) $(LEFT_OUT)

test: lint system  ## lint, type-check and run the tests on DuckDB, Spark and PostgreSQL
	$(BIN)/python -m pytest -n $(WORKERS) -m "not long"

test-long: $(VENV)/installed system  ## the statistical runs of many minutes
	$(BIN)/python -m pytest -n $(WORKERS) -m long

# More of them, or a sample again: make mutants MUTANTS="--count 300 --seed 7"
mutants: $(VENV)/installed  ## change the code that carries the promise in random places: does a test notice?
	$(BIN)/python tests/mutants.py $(MUTANTS)

# The oldest versions that pyproject.toml allows, and the newest that there are, each in an environment of its own; the
# newest on another Python if one is named: NEWEST_PYTHON=python3.13. The layout of help is Typer's, empty lines after
# progress are Rich's, and the names of NumPy's types are in signatures: these texts are those of the newest.
NEWEST_PYTHON ?= $(PYTHON)
OF_NEWEST := $(foreach run,helps public_api from_a_query_file with_open_limits,--deselect "tests/golden/test_golden.py::test_as_before[$(run)]")

test-versions:  ## quick tests with the lowest and with the newest versions of all dependencies
	@for resolution in lowest-direct highest; do \
		venv=.venv-$$resolution; python=$(PYTHON); left_out='$(OF_NEWEST)'; \
		if [ $$resolution = highest ]; then python=$(NEWEST_PYTHON); left_out=; fi; \
		$$python -m venv $$venv && $$venv/bin/python -m pip install --quiet uv && \
		VIRTUAL_ENV=$$venv $$venv/bin/uv pip install --quiet --resolution $$resolution --editable ".[dev,all,demo]" && \
		touch $$venv/installed && $(MAKE) --no-print-directory VENV=$$venv LEFT_OUT="$$left_out" quick || exit 1; \
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

$(VENV)/package: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --editable ".[package]"
	@touch $@

package: $(VENV)/package  ## build wheel and sdist into dist/, check them, and release a table with the wheel alone
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/twine check --strict dist/*
	$(BIN)/check-wheel-contents dist/*.whl
	$(BIN)/python tests/try_wheel.py dist/*.whl

sbom: $(VENV)/package  ## list what `osgt[all]` installs, as CycloneDX, into dist/sbom.json
	rm -rf build/sbom && $(PYTHON) -m venv build/sbom && build/sbom/bin/python -m pip install --quiet ".[all]"
	mkdir -p dist && $(BIN)/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --of JSON -o dist/sbom.json build/sbom/bin/python

paper: $(VENV)/installed  ## recompute every figure and number of the paper into build/paper
	$(BIN)/osgt paper --overwrite --out build/paper

paper-full: $(VENV)/installed  ## the same with 10⁹ applications in the experiment: a few minutes
	$(BIN)/osgt paper --full --overwrite --out build/paper

benchmarks: $(VENV)/benchmarks  ## measure every claim against its peers
	@for script in $(filter-out benchmarks/tables_engines.py benchmarks/measure.py,$(wildcard benchmarks/*.py)); do echo "== $$script"; $(BIN)/python $$script || exit 1; done

clean:  ## remove everything that can be built again
	rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
