# `make demo` and `make test` set up everything they need: each makes .venv when it is missing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
# what pip would do on one core; a library's file that is no Python of this version is none of ours
BYTECODE := $(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true

.PHONY: demo demo-spark test style types docs docs-serve benchmarks wheel clean

$(VENV)/.run: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) -e .
	@$(BYTECODE)
	@touch $@

$(VENV)/.docs: $(VENV)/.run
	$(INSTALL) -e '.[docs]'
	@$(BYTECODE)
	@touch $@

$(VENV)/.dev: $(VENV)/.docs
	$(INSTALL) -e '.[dev]'
	@$(BYTECODE)
	@touch $@

demo: $(VENV)/.run  ## forecast against every adversary, draw distance to calibration against T
	$(BIN)/onlinecal sweep simulations/demo.toml --out results/demo
	$(BIN)/onlinecal plot results/demo

$(VENV)/.spark: $(VENV)/.run
	$(INSTALL) -e '.[spark]'
	@$(BYTECODE)
	@touch $@

demo-spark: $(VENV)/.spark  ## a thousand streams on Spark, on two executors of this machine; needs Java 17
	$(BIN)/python -m simulations.demos.spark_demo --out results/demo-spark

style: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

test: style types docs  ## style, types, the site and the test suite
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile

docs: $(VENV)/.docs  ## the site, into the folder site; fails at the first warning
	$(BIN)/python -m sphinx -q -W --keep-going -c docs/site -d $(VENV)/doctrees docs site

docs-serve: docs  ## the same, shown at http://localhost:8000
	$(BIN)/python -m http.server 8000 --bind localhost --directory site

benchmarks: $(VENV)/.dev  ## the speed claims, as ratios measured in one process
	$(BIN)/python -m pytest tests/benchmarks -m speed

wheel: $(VENV)/.dev  ## sdist and the wheel made of it: checked, installed in a clean environment, tried in an empty folder
	rm -rf build dist
	$(BIN)/python -m build --outdir dist . > /dev/null
	$(BIN)/twine check --strict dist/*
	$(BIN)/check-wheel-contents dist/*.whl
	@scratch=$$(mktemp -d) && trap 'rm -rf "$$scratch"' EXIT \
	&& $(PYTHON) -m venv "$$scratch/venv" \
	&& "$$scratch/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile dist/*.whl \
	&& cd "$$scratch" && set -x \
	&& venv/bin/onlinecal --help > /dev/null \
	&& venv/bin/onlinecal simulate --rounds 2000

clean:
	rm -rf $(VENV) results site build dist docs/reference/names docs/reference/verbs *.egg-info
