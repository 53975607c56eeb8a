# `make demo` and `make test` need Python 3.11 or newer and make; everything else is set up here,
# in .venv, and a second call reuses it. For a torch without CUDA on a small machine:
#   make test PIP_FLAGS='--extra-index-url https://download.pytorch.org/whl/cpu'

unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV PIP_USER PIP_TARGET PIP_REQUIRE_VIRTUALENV
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# The constraints are made with 3.11, so that one comes first. A name may be there and not work
# (a version manager's shim), so each is tried.
find_python = for name in python3.11 python3.12 python3.13 python3 python; do \
	$$name -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& { echo $$name; break; }; done
PYTHON ?= $(shell $(find_python))

BIN := .venv/bin
# One more than two cores: many tests wait for a process of their own.
JOBS ?= 3
INPUTS ?= 500000
SEED ?= 1
ROUNDS ?= 10
TORTURED = $(addprefix tests/obygaze_features/store/test_, killed_fillings.py killed_changes.py \
	disks.py histories.py reading_damage.py reading_servers.py copying_elsewhere.py races.py) \
	$(addprefix tests/rules/test_, doubtful.py leftovers.py written_is_read.py)
# All other tests that draw with a seed: they draw the same in each round.
SEARCHED = $(filter-out $(TORTURED),$(shell grep -rl --include='*.py' --exclude-dir=support \
	'from support.seeds' tests))
RUFF = $(BIN)/ruff check && $(BIN)/ruff format --check
CONTRACTS = $(BIN)/mypy && $(BIN)/lint-imports
PIP_INSTALL = $(BIN)/python -m pip install --quiet $(PIP_FLAGS) -c constraints.txt

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test check lint golden fuzz torture format docs bench clean

help: ## what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

demo: .venv/.laptop ## the tour: made-up clips to a report, offline, without torch
	$(BIN)/obygaze demo

# Types keep one core busy for half a minute, so they are checked beside the tests. What they print is
# shown last; .ci/run runs no test again where a line begins with ERROR.
test: .venv/.test ## linters, types, the import contract, the tests without a `check` mark (minutes)
	$(RUFF)
	@{ $(CONTRACTS); } >.venv/contracts.log 2>&1 & contracts=$$!; \
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile -m "not check"; code=$$?; \
	wait $$contracts || { code=1; echo "ERROR in the types or the import contract:"; }; \
	cat .venv/contracts.log; exit $$code

# Only the files that have such a mark are collected, which each process does for itself.
CHECKED = $(shell grep -rlF --include='test_*.py' --include='[0-9]*.py' mark.check tests)
check: .venv/.test ## the tests with a `check` mark: browsers, clean installations, kills, Slurm, pages ...
	$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup -m check $(CHECKED)

lint: .venv/.test ## linters, types and the import contract only
	$(RUFF)
	$(CONTRACTS)

# What changed in them is explained in the commit (tests/golden/README.md).
golden: .venv/.test ## write the tables of what the program gives anew, in tests/golden/recorded (PARTS=)
	PYTHONPATH=tests $(BIN)/python -m golden $(PARTS)

fuzz: .venv/.test ## read 500,000 changed files of every kind (INPUTS=, SEED=); no error may be a bug
	PYTHONPATH=tests $(BIN)/python -m support.fuzz $(INPUTS) $(SEED)

# The tests are those of `make test` and `make check`, which search a part. Each round has other
# seeds.
torture: .venv/.test ## kill, suspend, flip, swap and mislead, again and again (ROUNDS=, SEED=, the first one)
	TORTURE=1 SEED=$(SEED) $(BIN)/python -m pytest -q $(SEARCHED)
	for seed in $$(seq $(SEED) $$(($(SEED) + $(ROUNDS) - 1))); do echo "seed $$seed"; \
	TORTURE=1 SEED=$$seed $(BIN)/python -m pytest -q $(TORTURED) || exit 1; done

format: .venv/.test ## put the code in its one form
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

docs: .venv/.test ## build the site, with the help of all commands, in build/site
	$(BIN)/python scripts/make-command-reference
	$(BIN)/sphinx-build -q -W --keep-going -d build/doctrees -c docs . build/site
	cp build/site/README.html build/site/index.html

bench: .venv/.test ## print the figures of docs/performance.md: ten minutes on a machine without other work
	$(BIN)/python -m benchmarks

clean: ## remove the environment and all caches; never what is in the workspace
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist
	rm -rf obygaze.egg-info
	find cli.py obygaze obygaze_features obygaze_models benchmarks tests -name __pycache__ -prune \
		-exec rm -rf {} +

# A stamp is newer than what it was made from, or it is made again.
.venv/.made:
	@test -n "$(PYTHON)" || { echo "make: no Python 3.11 or newer with venv on this machine" \
	"(Debian: apt install python3-venv; or say make PYTHON=/path/to/python3.11)" >&2; exit 1; }
	$(PYTHON) -m venv --clear .venv
	@touch $@

.venv/.laptop: .venv/.made pyproject.toml constraints.txt
	$(PIP_INSTALL) -e '.[video]'
	@touch $@

.venv/.test: .venv/.made pyproject.toml constraints.txt
	$(PIP_INSTALL) -e '.[test]'
	@touch .venv/.laptop $@
