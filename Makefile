# The list of commands. Each one does its own set-up in .venv, pinned by constraints.txt.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
CHROMEDRIVER := $(shell command -v chromedriver)
JOBS ?= 2
PYTEST := $(BIN)/python -m pytest --numprocesses $(JOBS) --dist worksteal

.PHONY: demo test test-fast test-gpu check docs format setup clean

demo: setup        ## train kin and GRACE+ on the bundled Cora and compare them with features without training
	$(BIN)/python examples/cora.py

test: setup        ## all tests; those on the paper's graphs where GRAPHKIN_DATA names their folder, those in a browser where there is one
	@if [ -z "$$GRAPHKIN_DATA" ]; then echo "GRAPHKIN_DATA is not set: tests marked 'data' (the paper's graphs) are deselected."; fi
	@if [ -z "$(CHROMEDRIVER)" ]; then echo "There is no chromedriver: tests marked 'browser' (the report in Chromium) are deselected."; fi
	$(PYTEST) -m "not gpu $(if $(GRAPHKIN_DATA),,and not data) $(if $(CHROMEDRIVER),,and not browser)"

test-fast: setup   ## the tests that take a minute in all
	@echo "Tests marked 'slow', 'data' and 'browser' are deselected; make test runs them."
	$(PYTEST) -m "not slow and not data and not browser and not gpu"

test-gpu:          ## the tests that need an NVIDIA GPU, with the Python that is active
	PYTHONPATH=src $(PYTHON) -m pytest -m gpu

check: setup docs  ## lint, format, types, imports that only go down, and a site without a broken link
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: setup        ## the documentation site: site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'graphkin needs Python 3.11 or newer; set PYTHON=...')"
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $(READY)

clean:
	rm -rf .venv
