# make demo   count and learn on a bundled sample, say what each step shows; installs only what streambpe needs
# make wheels wheels for Linux, macOS and Windows in dist/
# make test   install everything and run the tests of every day: some minutes on two cores
# make test-long   the tests that make test leaves out, and random cases by the hundred
# make soak   cases and kills that nobody has tried yet, until stopped (SOAK="--hours 2 --seed 7")
# Needs Python 3.11+ (PYTHON=python3.12 make test to pick one) and nothing else. On Windows: in Git Bash, PYTHON=python.

PYTHON ?= python3
VENV := .venv
ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
export PYTHONUTF8 := 1
else
BIN := $(VENV)/bin
endif

PARALLEL := -n logical --maxprocesses 4

.PHONY: demo test test-long soak lint wheels clean

$(VENV)/installed: pyproject.toml hatch_build.py $(wildcard streambpe/core/*.c streambpe/core/*.h)
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "streambpe needs Python 3.11 or later; try PYTHON=python3.12 make")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	touch $@

# without the test tools; all of it is there where make test has been run
$(VENV)/package: pyproject.toml hatch_build.py $(wildcard streambpe/core/*.c streambpe/core/*.h)
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "streambpe needs Python 3.11 or later; try PYTHON=python3.12 make")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	touch $@

demo: $(VENV)/package
	rm -rf demo-run
	@echo; echo "1. Count a small corpus, and learn 2 000 ids from the counts. Kill it when you like: the same command goes on."
	$(BIN)/streambpe train demo-run tests/data/sample --vocab-size 2000
	@echo; echo "2. The counts are a table: the most frequent chunks of the text, and their share of it (a space is shown as ␠)."
	$(BIN)/streambpe sql demo-run "SELECT shown(chunk) AS chunk, n, round(100 * share, 2) AS percent FROM chunk_frequencies LIMIT 5"
	@echo; echo "3. So is the vocabulary: the first long tokens, with the count of the merge that made each."
	$(BIN)/streambpe sql demo-run "SELECT id, shown, n FROM vocabulary WHERE length > 5 LIMIT 10"
	@echo; echo "4. How a token came to be: its merges, and the pairs that were next in line."
	$(BIN)/streambpe explain demo-run " the"
	@echo; echo "5. Text to ids and back."
	echo "The vocabulary is yours." | $(BIN)/streambpe encode demo-run | $(BIN)/streambpe decode demo-run
	@echo; echo "6. Every derived table is recounted from scratch."
	$(BIN)/streambpe check demo-run
	@echo; echo "7. One page with pictures: open demo-run/report.html in a browser."
	$(BIN)/streambpe report demo-run -o demo-run/report.html

test: $(VENV)/installed
	$(BIN)/python -m pytest $(PARALLEL) --dist loadfile -m 'not long'

test-long: $(VENV)/installed
	STREAMBPE_LONG=1 $(BIN)/python -m pytest $(PARALLEL) -m long

soak: $(VENV)/installed
	$(BIN)/python -m tests.soak $(SOAK)

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

# dist/: a wheel for each system, compiled here by zig from PyPI
wheels: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "$$($(BIN)/python -c 'import hatch_build; print(hatch_build.ZIG)')"
	for target in $$($(BIN)/python -c 'import hatch_build; print(*hatch_build.TARGETS)'); do \
	  STREAMBPE_TARGET=$$target $(BIN)/python -m hatchling build -t wheel -d dist || exit 1; done

clean:
	rm -rf $(VENV) demo-run .mypy_cache .ruff_cache .pytest_cache
