# make demo   count and learn on a bundled sample, say what each step shows; installs only what streambpe needs
# make wheels wheels for Linux, macOS and Windows in dist/; make test-wheels looks into each, and runs one under qemu
# make test   install everything and run the tests of every day: some minutes on two cores
# make test-long   the tests that make test leaves out, and random cases by the hundred (STREAMBPE_LONG=all: of every seed)
# make test-lowest   make test with the lowest versions of other packages that streambpe allows; make test-versions with
#             every Python that is found, too
# make bench-small   streambpe beside other trainers on a few MB: some minutes, docs/benchmarks.md anew
# make bench CORPORA=DIR   all of it on larger texts: hours (benchmarks/README.md)
# make perf   the instructions of imports and loops beside what they were (PERF=--write: write them down anew); needs valgrind
# make site   the docs as a site in build/site/html, built strictly: some seconds
# make soak   cases, kills and damage that nobody has tried yet, until stopped (SOAK="--hours 2 --seed 7", SOAK="--only kills --attempts 500")
# Needs Python 3.11+ (PYTHON=python3.12 make test to pick one) and nothing else. On Windows: in Git Bash, PYTHON=python.

PYTHON ?= python3
VENV := .venv
ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
export PYTHONUTF8 := 1
else
BIN := $(VENV)/bin
endif

# where it is set, each command that a test starts would compile the whole package anew
unexport PYTHONDONTWRITEBYTECODE

# the first program that imports a module compiles it: most modules of what is installed here are never imported
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile

PARALLEL := -n logical --maxprocesses 4
# what has tests that last minutes begins first, so that no processor waits for them at the end; pytest keeps this order
# only where no folder holds another that is named
LONGEST := $(wildcard tests/test_*.py) tests/runners/ tests/core/
OTHERS := $(filter-out $(LONGEST),$(sort $(dir $(wildcard tests/*/test_*.py))))

.PHONY: demo test test-long test-lowest test-versions test-wheels soak perf bench bench-small lint site wheels clean

$(VENV)/installed: pyproject.toml hatch_build.py $(wildcard streambpe/core/*.c streambpe/core/*.h)
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "streambpe needs Python 3.11 or later; try PYTHON=python3.12 make")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) -e '.[test,lint]'
	touch $@

# Ray, datatrove and zensical, which only tests of make test-long start
$(VENV)/long: $(VENV)/installed
	$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["test-long"], sep="\n")' > $(VENV)/long.txt
	$(PIP) -r $(VENV)/long.txt
	touch $@

# without the test tools; all of it is there where make test has been run
$(VENV)/package: pyproject.toml hatch_build.py $(wildcard streambpe/core/*.c streambpe/core/*.h)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "streambpe needs Python 3.11 or later; try PYTHON=python3.12 make")'
	@echo "Installing streambpe and what it needs into $(VENV): once, about half a minute."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) -e .
	@touch $@

demo: $(VENV)/package
	@rm -rf demo-run
	@echo; echo "1. Count a small corpus, and learn 2 000 ids from the counts."
	@echo "   Kill it when you like: the same command continues."
	$(BIN)/streambpe train demo-run tests/data/sample --vocab-size 2000
	@echo; echo "2. The counts are a table: the most frequent chunks of the text,"
	@echo "   and their share of it (a space is shown as ␠)."
	$(BIN)/streambpe sql demo-run "SELECT shown(chunk) AS chunk, n, round(100 * share, 2) AS percent FROM chunk_frequencies LIMIT 5"
	@echo; echo "3. So is the vocabulary: the first tokens of more than five bytes,"
	@echo "   with the count of the merge that made each (<E0 A5> is part of a character)."
	$(BIN)/streambpe sql demo-run "SELECT id, shown, n FROM vocabulary WHERE length > 5 LIMIT 10"
	@echo; echo "4. How a token was made: each merge, and the count it was chosen for."
	$(BIN)/streambpe explain demo-run " the"
	@echo; echo "5. Text to ids and back."
	echo "The vocabulary is yours." | $(BIN)/streambpe encode demo-run | $(BIN)/streambpe decode demo-run
	@echo; echo "6. Every table is recounted, and the vocabulary is learned again and compared."
	$(BIN)/streambpe check demo-run --replay
	@echo; echo "7. A page about the vocabulary: open demo-run/report.html in a browser."
	$(BIN)/streambpe report demo-run -o demo-run/report.html
	@echo; echo "What next: docs/tutorial.md goes from text to a tokenizer in transformers; docs/index.md lists all pages."

# four processes on two cores, too: these tests wait for the programs that they start
test: $(VENV)/installed
	$(BIN)/python -m pytest -n 4 --dist loadfile -m 'not long'

test-long: $(VENV)/long
	STREAMBPE_LONG=$${STREAMBPE_LONG:-1} $(BIN)/python -m pytest $(PARALLEL) --dist loadfile --no-loadscope-reorder -m long --durations=25 $(LONGEST) $(OTHERS)

# make test with the lowest versions that pyproject.toml allows of what streambpe needs
test-lowest:
	$(PYTHON) -m venv $(VENV)-lowest
	$(PYTHON) -c 'import tomllib; print(*(d.replace(">=", "==") for d in tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"]), sep="\n")' > $(VENV)-lowest/lowest.txt
	$(VENV)-lowest/$(notdir $(BIN))/python -m pip install --quiet --no-compile -c $(VENV)-lowest/lowest.txt -e '.[test]'
	$(VENV)-lowest/$(notdir $(BIN))/python -m pytest $(PARALLEL) --dist loadfile -m 'not long'

# make test on every Python that is found, pyenv's among them, each in .venv-VERSION; then test-lowest
test-versions:
	failed=; for version in 3.11 3.12 3.13 3.14; do \
	  python=$$(ls -d "$$HOME"/.pyenv/versions/$$version.*/bin/python 2>/dev/null | tail -n 1); \
	  python=$${python:-$$(command -v python$$version)}; \
	  if test -z "$$python"; then echo "There is no Python $$version here."; continue; fi; \
	  $(MAKE) test PYTHON="$$python" VENV=.venv-$$version || failed="$$failed $$version"; done; \
	$(MAKE) test-lowest || failed="$$failed lowest"; \
	test -z "$$failed" || { echo "Failed:$$failed"; exit 1; }

soak: $(VENV)/installed
	$(BIN)/python -m tests.soak $(SOAK)

# the others that are compared; those that have no package for this system are left out
$(VENV)/peers: $(VENV)/installed
	for peer in $$($(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["bench"])'); do \
	  $(PIP) "$$peer" || true; done
	touch $@

bench-small: $(VENV)/peers
	$(BIN)/python benchmarks/everything.py --small $(BENCH)

bench: $(VENV)/peers
	$(BIN)/python benchmarks/everything.py --corpora "$(CORPORA)" $(BENCH)

perf: $(VENV)/installed
	$(BIN)/python benchmarks/perf.py $(PERF)

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

$(VENV)/site: $(VENV)/package
	$(PIP) -e '.[docs]'
	touch $@

# to look at it: python3 -m http.server -d build/site/html
site: $(VENV)/site
	$(BIN)/python -m tools.site

# dist/: a wheel for each system, compiled here by zig from PyPI
wheels: $(VENV)/installed
	rm -f dist/*.whl
	$(PIP) "$$($(BIN)/python -c 'import hatch_build; print(hatch_build.ZIG)')"
	for target in $$($(BIN)/python -c 'import hatch_build; print(*hatch_build.TARGETS)'); do \
	  STREAMBPE_TARGET=$$target $(BIN)/python -m hatchling build -t wheel -d dist || exit 1; done

# what each wheel needs and offers (tools/wheels.py); with qemu-aarch64-static the aarch64 one runs the core's tests
test-wheels: wheels
	$(PIP) lief
	$(BIN)/python tools/wheels.py

clean:
	rm -rf $(VENV) build/site demo-run .mypy_cache .ruff_cache .pytest_cache
