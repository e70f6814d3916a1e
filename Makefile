# Two commands for a fresh machine with Python (>= 3.11) and make:
#   make demo    set up, then measure one interesting problem: a table and a picture
#   make test    set up, then lint, type-check and test
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: setup demo test test-slow lint benchmarks clean help

help:
	@sed -n '1,3p' Makefile; echo "#   make test-slow, make benchmarks, make lint, make clean"

# The environment is rebuilt when the project's dependencies change.
$(VENV)/.core: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "pacbandits needs Python 3.11 or newer; try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing pacbandits into $(VENV) (once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.test: $(VENV)/.core
	@echo "installing the test tools into $(VENV) (once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $@

setup: $(VENV)/.core

demo: $(VENV)/.core
	@mkdir -p out
	$(BIN)/pacbandits complexity trees:actions=8,competitive=3 --epsilon 0.05 --delta 0.05 --figure out/demo.png
	@echo "picture: out/demo.png"

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports

test: lint
	$(BIN)/pytest -n auto -m 'not slow'

test-slow: $(VENV)/.test
	PACBANDITS_HYPOTHESIS=explore $(BIN)/pytest -n auto

benchmarks: $(VENV)/.test
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) out build dist .pytest_cache .ruff_cache .hypothesis
