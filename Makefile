# Each target says what it does in the comment behind it; `make` alone lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help

PY := .venv/bin/python
MESSAGES := portal/translations/messages.pot
ARGS :=
# Tests run shuffled, the same way each time; ORDER="-p no:randomly" runs them as they stand.
ORDER := --randomly-seed=14
# Compiled tests are kept: compiling them costs more than running one.
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(PY) -m pytest $(ORDER)
PARALLEL := -n 2 --dist worksteal
# Tests that start processes wait for them most of the time.
WAITING := -n 3 --dist worksteal

.PHONY: help
help: ## List the targets
	@echo "Usage: make TARGET"
	@sed -nE 's/^([a-z0-9-]+):.*## (.*)$$/  \1|\2/p' Makefile | column -t -s '|' 2>/dev/null || grep -E '## ' Makefile

.PHONY: setup
setup: ## Install what the product needs: system packages, .venv, Python packages
	ops/setup

.PHONY: run
run: ## Start everything with two simulated OLTs (DEMO=0: without; PORT=8001: another port)
	@ops/run

.PHONY: dev
dev: ## Start the portal alone at PORT (8001), which loads changed code by itself; on the data of `make run`
	$(PY) -m flask --app app run --debug --port $(or $(PORT),8001)

.PHONY: unit
unit: ## Rules and pure parts in seconds: no app, no sockets, no set-up (ARGS="-k name": some)
	$(PYTEST) -q $(if $(ARGS),$(ARGS),$(PARALLEL)) -m "not slow" tests/unit

.PHONY: test-fast
test-fast: ## Units, services and pages on SQLite, in minutes, without set-up (ARGS="-k name": some)
	$(PYTEST) -q $(PARALLEL) -m "not live and not slow" -k "not postgresql" $(ARGS) tests/unit tests/source tests/integration

.PHONY: test
test: ## Install what tests need and run all of them (ARGS="tests/faults -k name": some)
	ops/setup --dev
ifeq ($(ARGS),)
	@status=0; \
	$(PYTEST) $(WAITING) -m "not clock" tests/unit tests/source tests/integration tests/walks tests/faults || status=1; \
	$(PYTEST) $(PARALLEL) tests/e2e || status=1; \
	$(PYTEST) $(PARALLEL) -m clock tests/integration tests/faults || status=1; \
	exit $$status
else
	$(PYTEST) $(ARGS)
endif

.PHONY: check
check: ## Lint, format, types, contracts between the packages, size budgets
	ops/setup --dev
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	.venv/bin/lint-imports --no-cache
	$(PYTEST) -q tests/source/test_budgets.py

.PHONY: format
format: ## Rewrite the code in the house's format and mend what ruff can mend
	$(PY) -m ruff check --fix-only .
	$(PY) -m ruff format .

.PHONY: bench
bench: ## Run the benchmarks; each prints one line of JSON (BENCH=name: only that one)
	ops/setup --dev
	@for file in bench/$(if $(BENCH),$(BENCH),*).py; do \
	    name=$$(basename "$$file" .py); \
	    [[ ! -f $$file || $$name == _* ]] || $(PY) -m "bench.$$name" || exit 1; \
	done

.PHONY: screenshots
screenshots: ## Take the pictures for the documentation with a headless Chromium
	ops/setup --dev
	$(PY) -m tests.e2e.screenshots $(ARGS)

.PHONY: i18n-extract
i18n-extract: ## Collect the messages of code and templates
	.venv/bin/pybabel extract -F pyproject.toml -k _l -k lazy_gettext --no-location --sort-output --omit-header -o $(MESSAGES) .

.PHONY: i18n-update
i18n-update: i18n-extract ## Merge new messages into the Spanish translation
	.venv/bin/pybabel update --no-fuzzy-matching --ignore-obsolete --omit-header -i $(MESSAGES) -d portal/translations -l es

.PHONY: lock
lock: ## Renew both lock files from requirements.in and requirements-dev.in (UPGRADE="--upgrade")
	.venv/bin/uv pip compile --quiet $(UPGRADE) --universal --python-version 3.11 --generate-hashes --no-annotate \
	    --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" requirements.in -o requirements.lock
	.venv/bin/uv pip compile --quiet $(UPGRADE) --universal --python-version 3.11 --generate-hashes --no-annotate \
	    --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" -c requirements.lock \
	    requirements-dev.in -o requirements-dev.lock

.PHONY: distclean
distclean: ## Remove .venv and caches (instance/ with its data and logs/ stay)
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache test-results
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
