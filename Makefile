# Two commands for a fresh machine with Python (>= 3.11) and make:
#   make demo    set up, then run a whole experiment in simulation, about a minute: a policy, a picture, a certificate
#   make test    set up, then lint, type-check and test: six minutes on two cores
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# Where this is set, as in many containers, each process would compile all sources again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup demo serve test test-all explore coverage lint docs docs-serve figures benchmarks release clean help

help:
	@sed -n '1,3p' Makefile
	@echo "#   make serve     the service with a demonstration: an experiment, visitors, and a dashboard to watch"
	@echo "#   make test-all  every test, mutants, lowest versions, docs, wheel: an hour or two; ONLY=mutants, MINUTES=45"
	@echo "#   make figures   the tables and pictures of docs/, each by its own command: hours; ONLY=word for some of them"
	@echo "#   make explore   properties with new random examples"
	@echo "#   make release   build wheel and sdist, check them, run the tutorial with each in an empty environment"
	@echo "#   make coverage, docs, docs-serve, benchmarks, lint, clean"

# The environment is rebuilt when the project's dependencies change.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "pacbandits needs Python 3.11 or newer; try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	@$(PYTHON) -m venv $(VENV)

comma := ,
# uv installs in a sixth of pip's time; where it cannot be had, or does not find a package, pip does it.
define install
	@echo "installing pacbandits$(1) into $(VENV) (once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile uv 2> /dev/null && \
	  $(BIN)/uv pip install --quiet --python $(BIN)/python --editable '.$(1)' 2> /dev/null || \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable '.$(1)'
	@touch $@
endef

$(VENV)/.core: pyproject.toml | $(BIN)/python
	$(call install,)

$(VENV)/.lint: pyproject.toml | $(BIN)/python
	$(call install,[lint])

$(VENV)/.test: pyproject.toml | $(BIN)/python
	$(call install,[test])

$(VENV)/.service: pyproject.toml | $(BIN)/python
	$(call install,[service])

$(VENV)/.docs: pyproject.toml | $(BIN)/python
	$(call install,[docs])

$(VENV)/.gpu: pyproject.toml | $(BIN)/python
	$(call install,[test$(comma)gpu])

setup: $(VENV)/.core

demo: $(VENV)/.core
	@mkdir -p out
	@[ -e $(VENV)/.compiled ] || { echo "compiling, once (about 20 seconds)"; $(BIN)/python tests/warm_up.py demo; }
	@touch $(VENV)/.compiled
	$(BIN)/pacbandits run trees:actions=16,competitive=3,features=4 --epsilon 0.05 --delta 0.05 --against uniform \
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
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports

test:
	@$(PYTHON) tests/suite.py test

# Every part, cheapest first; a failure does not stop the rest. MINUTES=45 for those that fit, ONLY=word, SKIP=word.
test-all:
	@$(PYTHON) tests/suite.py all $(if $(MINUTES),--minutes $(MINUTES)) $(if $(ONLY),--only '$(ONLY)') $(if $(SKIP),--skip '$(SKIP)')

explore: $(VENV)/.test
	PACBANDITS_HYPOTHESIS=explore OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -n auto -m hypothesis

# The share of lines that the fast tests run, in all and by file; PACKAGE=pacbandits.logs TESTS=tests/logs for a part.
coverage: $(VENV)/.test
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check pytest-cov
	OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -n auto -q -m "not slow and not thorough" --cov=$(or $(PACKAGE),pacbandits) \
	  --cov-report=term:skip-covered $(or $(TESTS),tests)

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

# Builds into dist/ and publishes nothing; CONTRIBUTING.md has the checklist.
release: $(BIN)/python
	$(BIN)/python tests/wheel.py dist

clean:
	rm -rf $(VENV) .venv-lowest .venv-newest out site build dist .pytest_cache .ruff_cache .hypothesis
