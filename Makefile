# Ridgeline. `make help` lists what can be made; the text after ## is the help.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv
RUN := $(BIN)/ridgeline
export RIDGELINE_GOLDEN ?= ../shared

.PHONY: help demo test check integration bench fuzz docs serve lock lint types clean

help: ## show this help
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  \1\t\2/' | expand -t 16

# The environment is made once: again only when a lock file changes.
$(VENV)/uv.stamp:
	@echo "making the environment in $(VENV)" >&2
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
	@touch $@

$(VENV)/base.stamp: requirements/base.txt pyproject.toml | $(VENV)/uv.stamp
	@test -f $(VENV)/dev.stamp || { $(UV) pip install --quiet --python $(BIN)/python --compile-bytecode --require-hashes -r requirements/base.txt \
	  && $(UV) pip install --quiet --python $(BIN)/python --no-deps --editable . ; }
	@touch $@

$(VENV)/dev.stamp: requirements/dev.txt pyproject.toml | $(VENV)/uv.stamp
	@$(UV) pip install --quiet --python $(BIN)/python --compile-bytecode --require-hashes -r requirements/dev.txt
	@$(UV) pip install --quiet --python $(BIN)/python --no-deps --editable .
	@touch $@ $(VENV)/base.stamp

$(VENV)/fuzz.stamp: requirements/fuzz.txt | $(VENV)/dev.stamp
	@$(UV) pip install --quiet --python $(BIN)/python --require-hashes -r requirements/fuzz.txt \
	  || echo "atheris cannot be had here: the coverage-guided half is skipped" >&2
	@touch $@

demo: $(VENV)/base.stamp ## the main job on the embedded engine; ends with a report to open
	@$(RUN) sweep benchmarks/quickstart.yaml

test: $(VENV)/dev.stamp ## unit tests
	@env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -q -n 2 -m "not integration and not fuzz"

lint: $(VENV)/dev.stamp
	@$(BIN)/ruff check src tests bench
	@$(BIN)/lint-imports

types: $(VENV)/dev.stamp
	@$(BIN)/mypy

check: lint types test ## lint, types and unit tests

integration: $(VENV)/dev.stamp ## tests against real parts
	@$(BIN)/python -m pytest -q -m integration; code=$$?; [ $$code -eq 5 ] && exit 0 || exit $$code

bench: $(VENV)/dev.stamp ## our own performance measurements
	@for f in bench/*.py; do echo "== $$f"; $(BIN)/python $$f || exit 1; done

fuzz: $(VENV)/dev.stamp $(VENV)/fuzz.stamp ## ten minutes of fuzzing
	@$(BIN)/python -m pytest -q -m fuzz

docs: $(VENV)/dev.stamp ## write the generated reference pages again
	@$(BIN)/python -m ridgeline.cli.docs

serve: $(VENV)/base.stamp ## the dashboard over the runs in runs/
	@mkdir -p runs; $(RUN) serve

lock: $(VENV)/uv.stamp ## pin the requirements again
	@for f in uv base dev fuzz; do $(UV) pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-header --python-version 3.11 requirements/$$f.in -o requirements/$$f.txt; done

clean: ## remove the environment and caches
	@rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
