# Each target makes what it needs: a virtual environment for the Python that was asked for
# (make test PYTHON=python3.12), the package in it, and only then the program itself.

PYTHON ?= python3
# More arguments for the program of a target: make test ARGS="-k ladder -x"
ARGS ?=
# make paper QUICK=1 and make benchmark-efficiency QUICK=1 take minutes.
QUICK ?=

VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
ifeq ($(VERSION),)
$(error $(PYTHON) does not run; name one that does: make PYTHON=/path/to/python)
endif

VENV := .venv/$(VERSION)
RUN := $(VENV)/bin/python
INSTALLED := $(VENV)/.installed
# Packages that call PyMC ask for versions of their own, so they have an environment of their own.
CLIENTS := .venv/clients-$(VERSION)

# Programs draw into files, never onto a screen.
export MPLBACKEND ?= Agg

.PHONY: help install demo test test-long test-clients test-upstream test-zarr lint format benchmark benchmark-pymc benchmark-efficiency benchmark-gallery benchmark-from-paper paper mutants docs docs-links dist clean

help:
	@echo "make demo        sample two models with MJHMC, nutpie and NUTS; pictures in demo/"
	@echo "make test        the tests, without those marked long"
	@echo "make test-long   the tests marked long"
	@echo "make test-clients  Bambi, pymc-marketing and others with MJHMC, in an environment of their own"
	@echo "make test-zarr   those of PyMC's ZarrTrace, with the zarr that it needs"
	@echo "make test-upstream  PyMC's own tests with MJHMC in place of NUTS"
	@echo "make lint        ruff, mypy and the import contracts"
	@echo "make format      let ruff rewrite what it can"
	@echo "make benchmark             the kernel's time and memory: examples/benchmark/SPEED.md"
	@echo "make benchmark-pymc        time per gradient and of whole runs on PyMC models"
	@echo "make benchmark-efficiency  effective samples per gradient: RESULTS.md (QUICK=1: a few)"
	@echo "make benchmark-gallery     the same on real models with real data"
	@echo "make benchmark-from-paper  the price of each step from the paper to the default"
	@echo "make paper       every figure of the paper (QUICK=1: in minutes)"
	@echo "make mutants     break the kernel in small ways; the tests must notice each"
	@echo "make docs        the documentation site, in docs/_build/html (PYTHON=python3.12 or newer)"
	@echo "make dist        the wheel and the sdist, in dist/"
	@echo "make clean       remove the virtual environments and caches"
	@echo "PYTHON=... chooses the interpreter, ARGS=... is handed to the program."

install: $(INSTALLED)

$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; $(PYTHON) is $(VERSION). Choose one: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --disable-pip-version-check --quiet --editable '.[pymc,plots,dev]'
	touch $@

$(CLIENTS)/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 12) and "The packages of today need Python 3.12 or newer; $(PYTHON) is $(VERSION). Choose one: make test-clients PYTHON=python3.12")'
	$(PYTHON) -m venv $(CLIENTS)
	$(CLIENTS)/bin/python -m pip install --disable-pip-version-check --quiet --editable '.[clients,pymc]' pytest
	touch $@

demo: $(INSTALLED)
	$(RUN) examples/demo.py $(ARGS)

test: $(INSTALLED)
	$(RUN) -m pytest $(ARGS)

test-long: $(INSTALLED)
	$(RUN) -m pytest -m long $(ARGS)

test-clients: $(CLIENTS)/.installed
	$(CLIENTS)/bin/python -m pytest -m clients tests/clients $(ARGS)

# PyMC's ZarrTrace works with zarr 2 alone, and what else is tested wants zarr 3: the older one is
# put into a folder of its own.
ZARR := $(VENV)/zarr2

$(ZARR)/.installed: $(INSTALLED)
	$(RUN) -m pip install --disable-pip-version-check --quiet --no-deps --upgrade --target $(ZARR) \
		'zarr<3' 'numcodecs<0.16' asciitree deprecated fasteners wrapt
	touch $@

test-zarr: $(ZARR)/.installed
	PYTHONPATH=$(ZARR) $(RUN) -c 'from pymc.backends import zarr; assert zarr._zarr_available'
	PYTHONPATH=$(ZARR) PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 $(RUN) -m pytest -k zarr_trace tests/integrations $(ARGS)

# PyMC's tests read what zarr 2 has written by xarray too, which newer versions cannot.
XARRAY := $(VENV)/xarray2025

$(XARRAY)/.installed: $(INSTALLED)
	$(RUN) -m pip install --disable-pip-version-check --quiet --no-deps --upgrade --target $(XARRAY) \
		'xarray<2025.7'
	touch $@

# ZarrTrace pickles warnings. The tests read what they have written themselves.
test-upstream: export NUMCODECS_ALLOW_UNSAFE_PICKLE_DECODE = 1
test-upstream: $(ZARR)/.installed $(XARRAY)/.installed
	PYTHONPATH=$(abspath $(ZARR)):$(abspath $(XARRAY)) $(RUN) tests/upstream/run.py $(ARGS)

lint: $(INSTALLED)
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) tests/installed/lint.py

format: $(INSTALLED)
	$(RUN) -m ruff check --fix .
	$(RUN) -m ruff format .

benchmark: $(INSTALLED)
	$(RUN) examples/benchmark/run.py $(ARGS)

benchmark-pymc: $(INSTALLED)
	$(RUN) examples/benchmark/run.py pymc_speed first_draw whole_runs $(ARGS)

benchmark-efficiency: $(INSTALLED)
	$(RUN) examples/benchmark/results.py $(if $(QUICK),--quick) $(ARGS)

benchmark-gallery: $(INSTALLED)
	$(RUN) examples/benchmark/efficiency.py --bench gallery --out examples/benchmark/results/gallery.csv $(ARGS)

benchmark-from-paper: $(INSTALLED)
	$(RUN) examples/benchmark/from_paper.py $(ARGS)

paper: $(INSTALLED)
	$(RUN) examples/paper/run.py $(if $(QUICK),--quick) $(ARGS)

mutants: $(INSTALLED)
	$(RUN) tests/mutants/run.py $(ARGS)

DOCS := $(VENV)/.docs

$(DOCS): $(INSTALLED)
	$(RUN) -m pip install --disable-pip-version-check --quiet --editable '.[pymc,plots,docs]'
	touch $@

# Pictures of notebooks are shown in the page, whatever backend other programs have.
docs: export MPLBACKEND = module://matplotlib_inline.backend_inline
docs: $(DOCS)
	$(RUN) -m sphinx -W --keep-going -b html docs docs/_build/html $(ARGS)

# Asks every address outside of the site; needs the network.
docs-links: $(DOCS)
	$(RUN) -m sphinx -b linkcheck docs docs/_build/links

dist: $(INSTALLED)
	rm -rf dist
	$(RUN) -m pip install --disable-pip-version-check --quiet build
	$(RUN) -m build --outdir dist .

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
