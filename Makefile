# `make demo` and `make test` set up everything they need: each makes .venv when it is missing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# uv takes a third of pip's time; pip has the last word where it is set up for another index
install = $(BIN)/python -m uv pip install --quiet --python $(1) $(2) || $(1) -m pip install --quiet $(2)

# many processes start here: what they import is parsed once, whatever the shell has set
export PYTHONDONTWRITEBYTECODE =

.PHONY: demo demo-spark test test-all checks style types docs docs-serve figures proofs benchmarks peers findings \
	wheel clean

$(VENV)/.run: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv || true
	$(call install,$(BIN)/python,-e .)
	@touch $@

$(VENV)/.docs: $(VENV)/.run
	$(call install,$(BIN)/python,-e '.[docs]')
	@touch $@

$(VENV)/.dev: $(VENV)/.docs
	$(call install,$(BIN)/python,-e '.[dev]')
	@touch $@

demo: $(VENV)/.run  ## forecast against every adversary, draw distance to calibration against T
	$(BIN)/onlinecal sweep simulations/demo.toml --out results/demo
	$(BIN)/onlinecal plot results/demo

$(VENV)/.spark: $(VENV)/.run
	$(call install,$(BIN)/python,-e '.[spark]')
	@touch $@

demo-spark: $(VENV)/.spark  ## a thousand streams on Spark, on two cores of this machine; needs Java 17
	$(BIN)/python -m onlinecal.simulations.demos.spark_demo --out results/demo-spark

style: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

# a file is tested by one process, so that no two processes compile what it needs
SUITE := $(BIN)/python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder
SITE_TESTS := tests/docs/test_site.py

test: MARKED := not slow and not speed
test: $(VENV)/.dev  ## the test suite, and beside it style, types and the site
	@$(beside)

test-all: MARKED := not speed
test-all: export ONLINECAL_QUERIES = 400
test-all: $(VENV)/.dev  ## the same with the long forms of checks, which take hours
	@$(beside)

# What the checks say goes to a file, and is shown when the suite is through. The site's tests belong to the checks.
define beside
$(MAKE) --keep-going --no-print-directory checks MARKED="$(MARKED)" > $(VENV)/checks.log 2>&1 & checks=$$!; \
trap 'kill $$checks' INT TERM; \
$(SUITE) -m "$(MARKED)" --ignore $(SITE_TESTS); suite=$$?; \
wait $$checks; checks=$$?; cat $(VENV)/checks.log; test $$suite = 0 && test $$checks = 0
endef

checks: style types $(VENV)/.site
	$(BIN)/python -m pytest -m "$(MARKED)" $(SITE_TESTS)

# what is not read again is not warned of again: after a warning all pages are read
sphinx = $(BIN)/python -m sphinx -q -W --keep-going -c docs/site -d $(VENV)/doctrees docs site \
	|| { rm -rf $(VENV)/doctrees; exit 1; }

docs: $(VENV)/.docs  ## the site, into the folder site; fails at the first warning
	$(sphinx)

# files and folders that the site is made of, but for what it is made into
SITE_SOURCES := $(wildcard *.md) pyproject.toml $(shell find docs onlinecal adversaries simulations \
	\( -name __pycache__ -o -path docs/reference/names -o -path docs/reference/verbs \) -prune \
	-o ! -path docs ! -name '*.ipynb' ! -name '*.vo*' ! -name '*.glob' ! -name '.*' -print)

$(VENV)/.site: $(SITE_SOURCES) $(VENV)/.docs
	$(sphinx)
	@touch $@

docs-serve: docs  ## the same, shown at http://localhost:8000
	$(BIN)/python -m http.server 8000 --bind localhost --directory site

# pages whose blocks print what stands below them or draw a picture
SHOWN := README.md $(addprefix docs/,$(addsuffix .md,index act-on-a-threshold combine gallery measures multiclass \
	recalibrate recalibrate-decisions worst-case wrap-a-classifier)) \
	$(filter-out %/index.md,$(wildcard docs/tutorials/*.md))
figures: $(VENV)/.dev  ## runs the blocks of pages, for minutes, and puts what they print and draw in place
	$(BIN)/python -m tests.pages $(SHOWN)

# in the order in which they build on each other
PROOFS := Sums Calibration Game Rule Uniform Graded Recursion Theorems

proofs:  ## the machine's check of the theorem, by coqc; says what each statement rests on
	@! grep -nE '\<(Admitted|admit|Axioms?|Parameters?|Conjecture)\>' docs/proofs/*.v
	@cd docs/proofs && for file in $(PROOFS); do coqc -q -Q . Onlinecal $$file.v || exit 1; done

benchmarks: $(VENV)/.dev  ## the speed claims, as ratios measured in one process
	$(BIN)/python -m pytest tests/benchmarks -m speed

# torch comes by pip: uv would look for another build of it
PEERS ?= .peers
$(PEERS)/.installed: tests/peers/requirements.txt
	test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	grep '^torch==' $< | xargs $(PEERS)/bin/python -m pip install --quiet
	$(PEERS)/bin/python -m pip install --quiet -r $<
	@touch $@

peers: $(VENV)/.dev $(PEERS)/.installed  ## runs other packages beside ours, writes their figures down, fails if they moved
	$(BIN)/python -m tests.peers $(abspath $(PEERS))/bin/python

findings:  ## runs every script of findings, each in an environment of its own; fails if one no longer holds
	@log=$$(mktemp); trap 'rm -f "$$log"' EXIT; changed=; for script in findings/*.sh; do \
		if bash $$script > "$$log" 2>&1; then echo "holds    $$script"; \
		else echo "CHANGED  $$script"; tail -n 20 "$$log"; changed=1; fi; \
	done; test -z "$$changed"

wheel: $(VENV)/.dev  ## sdist and the wheel made of it: checked, and tried in a clean environment, as other installations are
	rm -rf build dist
	$(BIN)/python -m build --outdir dist . > /dev/null
	$(BIN)/twine check --strict dist/*
	$(BIN)/check-wheel-contents dist/*.whl
	$(BIN)/python -m pytest -m slow tests/test_wheel.py

clean:
	rm -f docs/proofs/*.vo* docs/proofs/*.glob docs/proofs/.*.aux docs/proofs/.*.cache
	rm -rf $(VENV) results site build dist docs/reference/names docs/reference/verbs *.egg-info
