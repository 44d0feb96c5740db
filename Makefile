# day0: `make` with no argument lists what there is.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
VENV := .venv
PY := $(VENV)/bin/python
DAY0 := $(VENV)/bin/day0
PYTHON ?= python3
export DAY0_HOME ?= $(shell $(PYTHON) -c 'import os,pathlib;print(pathlib.Path(os.environ.get("XDG_DATA_HOME") or pathlib.Path.home()/".local/share")/"day0")')
TINY := $(DAY0_HOME)/models/tiny-llama
# every process that the tests start would compile day0 anew
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help run run-cpu run-cpu-quick run-docker engine test test-all test-docker bench soak scenarios lint lock docs dev clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

run: $(VENV)/.base  ## the whole story of GLM-5.2 on a simulated node of eight MI355X, in under a minute
	$(DAY0) run zai-org/GLM-5.2 --target mi355x-twin --again

engine: $(VENV)/.base  ## install the real SGLang for this machine's CPU and make the tiny model
	$(DAY0) engine install cpu
	$(DAY0) engine tiny-model $(TINY)

run-cpu: engine  ## search on a real SGLang server, confirm, write a recipe, replay it (about 30 min)
	$(DAY0) run $(TINY) --target cpu --again

run-cpu-quick: engine  ## the same with 4 candidates and short windows (9 to 14 min)
	$(DAY0) run $(TINY) --target cpu-quick --again

run-docker: engine  ## the same in containers, a patch of the engine measured first (root; at most 30 min)
	scripts/run-docker $(DAY0) $(TINY)

dev: $(VENV)/.dev  ## environment for work on day0

test: $(VENV)/.dev  ## fast tests: no GPU, Docker, engine or network
	$(PY) -m pytest -q -n 2 --dist worksteal

test-all: $(VENV)/.dev  ## everything that this machine can run; what it cannot says why
	$(PY) -m pytest -q -n 2 --dist worksteal
	$(PY) -m pytest -q -n 2 --dist worksteal --timeout 300 tests/database tests/twin
	$(PY) -m pytest -q --timeout 600 tests/crash tests/packaging
	$(PY) -m pytest -q --timeout 600 tests/engine/test_bench_real.py tests/engine/test_eval_run_real.py
	$(PY) -m pytest -q -n 2 --dist loadfile --timeout 600 tests/engine --ignore tests/engine/test_bench_real.py --ignore tests/engine/test_eval_run_real.py

test-docker: $(VENV)/.dev  ## what needs a Docker daemon: starts one of its own, removes it afterwards (root)
	scripts/dockerd run $(PY) -m pytest -q --timeout 400 tests/docker

bench: $(VENV)/.dev engine  ## figures and ratios, printed, never asserted (about 100 min; goes on where it was stopped)
	$(PY) bench/overhead.py
	$(PY) bench/simulator.py
	$(PY) bench/judging.py
	$(PY) bench/equal.py
	$(PY) bench/knee_grid.py
	$(PY) bench/knee_real.py
	$(PY) bench/twin_eval.py

soak: $(VENV)/.dev  ## the crash suite again and again, at random moments
	for i in 1 2 3 4 5; do $(PY) -m pytest -q --timeout 600 tests/crash; done

scenarios: $(VENV)/.dev  ## which scenario line is proved by which test, and run those tests
	$(PY) scripts/scenarios.py

lint: $(VENV)/.dev  ## ruff, mypy --strict, layers, stale documents
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(PY) scripts/docs.py --check

docs: $(VENV)/.dev  ## regenerate what is drawn from the code
	$(PY) scripts/docs.py

lock: $(VENV)/.dev  ## renew the lock files from pyproject.toml
	scripts/lock

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "day0 needs Python 3.11 or newer; say which with PYTHON=python3.12"'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.base: requirements.lock setup.py pyproject.toml | $(VENV)/bin/python
	$(VENV)/bin/pip install --quiet --require-hashes -r requirements.lock
	$(VENV)/bin/pip install --quiet --no-deps --no-build-isolation -e .
	touch $@

$(VENV)/.dev: requirements-dev.lock setup.py pyproject.toml | $(VENV)/bin/python
	$(VENV)/bin/pip install --quiet --require-hashes -r requirements-dev.lock
	$(VENV)/bin/pip install --quiet --no-deps --no-build-isolation -e .
	touch $(VENV)/.base $@

clean:  ## remove the environment and the caches (never the data in DAY0_HOME)
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
