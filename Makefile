# Two commands for a fresh machine with Python (>= 3.11) and make:
#   make demo    set up, then run a whole experiment in simulation, about a minute: a policy, a picture, a certificate
#   make test    set up, then lint, type-check and test
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# Python compiles what it imports; to compile all that is installed, imported or not, takes as long as to install it.
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
# Where this is set, as in many containers, each of the tests' processes would compile all of its sources again.
unexport PYTHONDONTWRITEBYTECODE
# As many processes as cores test at once; threads of theirs would only wait for one another.
PYTEST := OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -n auto

.PHONY: setup demo serve test test-slow test-lowest mutants lint docs docs-serve figures benchmarks clean help

help:
	@sed -n '1,3p' Makefile
	@echo "#   make serve   the service with a demonstration: an experiment, visitors, and a dashboard to watch"
	@echo "#   make figures the tables and pictures of docs/, each by its own command: hours; ONLY=word for some of them"
	@echo "#   make docs, docs-serve, test-slow, test-lowest, mutants, benchmarks, lint, clean"

# The environment is rebuilt when the project's dependencies change.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "pacbandits needs Python 3.11 or newer; try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml | $(BIN)/python
	@echo "installing pacbandits into $(VENV) (once)"
	@$(PIP) --editable .
	@touch $@

$(VENV)/.lint: pyproject.toml | $(BIN)/python
	@echo "installing pacbandits with its linters into $(VENV) (once)"
	@$(PIP) --editable '.[lint]'
	@touch $(VENV)/.core $(VENV)/.service $@

$(VENV)/.test: pyproject.toml $(VENV)/.lint
	@echo "installing what else its tests need into $(VENV) (once)"
	@$(PIP) --editable '.[test]'
	@touch $@

$(VENV)/.service: pyproject.toml | $(BIN)/python
	@echo "installing pacbandits with its service into $(VENV) (once)"
	@$(PIP) --editable '.[service]'
	@touch $(VENV)/.core $@

$(VENV)/.docs: pyproject.toml | $(BIN)/python
	@echo "installing the tools for the documentation into $(VENV) (once)"
	@$(PIP) --editable '.[docs]'
	@touch $(VENV)/.core $@

setup: $(VENV)/.core

demo: $(VENV)/.core
	@mkdir -p out
	$(BIN)/pacbandits run trees:actions=16,competitive=3 --epsilon 0.05 --delta 0.05 --against uniform \
	  --figure out/demo.png --certificate out/certificate.json --log out/log.parquet
	@echo
	$(BIN)/pacbandits verify out/certificate.json out/log.parquet
	@echo
	@echo "written: out/demo.png          certified ε over samples, against the plain randomised trial"
	@echo "         out/certificate.json  what is proven of the policy, for pacbandits verify"
	@echo "         out/log.parquet       what was seen and done"
	@echo
	@echo "A design matters where there are many actions, few of them compete, and ε is small. It does not with two actions,"
	@echo "or where every action is best for somebody: coda then plays nearly evenly, and stops when the plain trial does."

# An experiment in out/demo.db with made-up visitors, until interrupted; PORT=8001 for another port.
serve: $(VENV)/.service
	@mkdir -p out
	$(BIN)/pacbandits serve --demo --database out/demo.db --port $(or $(PORT),8000) 2> out/serve.log

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports

# While the linters leave a core idle, what most tests need is compiled there, and the rest is fetched.
test: $(VENV)/.lint
	@$(BIN)/python tests/warm_up.py & warm=$$!; \
	  { $(MAKE) --no-print-directory $(VENV)/.test && $(BIN)/python tests/warm_up.py --tests; } & fetch=$$!; \
	  $(MAKE) --no-print-directory lint || { kill $$warm $$fetch; exit 1; }; wait $$fetch && wait $$warm
	$(PYTEST) --dist worksteal -m 'not slow'

test-slow: $(VENV)/.test
	PACBANDITS_HYPOTHESIS=explore $(PYTEST)

# Each step that a proof rests on, left out in a copy of the code: does its test notice? A quarter of an hour.
mutants: $(VENV)/.test
	$(BIN)/python -m tests.mutants

# In an environment of its own, made anew, with the lowest versions that pyproject.toml permits.
test-lowest:
	$(PYTHON) tests/lowest_versions.py

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	$(BIN)/python docs/tools/check.py site
	@echo "written: site/index.html"

docs-serve: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve --watch CONTRIBUTING.md --watch CHANGELOG.md --watch src

# Every table and picture in the pages, remade in place; pages say which command makes what (benchmarks/markers.py).
figures: $(VENV)/.test
	$(BIN)/python -m benchmarks.figures $(if $(ONLY),--only '$(ONLY)')

benchmarks: $(VENV)/.test
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) .venv-lowest out site build dist .pytest_cache .ruff_cache .hypothesis
