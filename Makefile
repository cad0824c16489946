# Short names for the commands of CONTRIBUTING.md; .ci/run does all of it from a bare machine.

PYTHON ?= .venv/bin/python
ARGS ?=

.PHONY: help venv check test test-all real reliability mutants sweep

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1: /p' $(MAKEFILE_LIST)

venv: ## what the other targets need, in .venv
	python3 -m venv .venv
	.venv/bin/pip install --quiet --disable-pip-version-check -e '.[test]'

check: ## format, lint, spelling, types, layers
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m ruff check .
	$(dir $(PYTHON))codespell
	$(PYTHON) -m mypy
	$(PYTHON) -m pytest -q -n 0 tests/unit/test_layers.py

test: ## all tests but the real agents; ARGS='-k case_24' for some of them
	PYTHONWARNDEFAULTENCODING=1 $(PYTHON) -m pytest $(ARGS)

test-all: ## the unit tests on Python 3.11, 3.12 and 3.13, whichever are installed
	bash .ci/test-all $(ARGS)

real: ## the real agents, from npm, against a scripted model
	$(PYTHON) -m tests.real.install
	$(PYTHON) -m pytest -n 0 -m real tests/real $(ARGS)

reliability: ## a minute of random faults, judged from outside; ARGS='--seeds 5' or '--seed N'
	$(PYTHON) -m tests.chaos --seconds 45 $(ARGS)

mutants: ## delete each guard in a copy, and see its test fail; ARGS='G6' for one rule
	$(PYTHON) -m tests.mutants $(ARGS)

sweep: ## kill the daemon at each pass of each fault point; about ten minutes
	ACPBRIDGE_SWEEP=1 $(PYTHON) -m pytest -q -n 0 tests/integration/test_fault_points.py $(ARGS)
