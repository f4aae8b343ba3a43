# Everything happens in .venv, made on the first run and reused by the next.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Run again with the JIT off: coverage sees into a kernel only where it is plain Python.
KERNEL_TESTS := $(addprefix tests/test_,$(addsuffix .py,dynamics estimator laws network recruitment))

.PHONY: demo reproduce test lint bench soak clean

demo: $(VENV)/ready
	$(BIN)/hebbnmf demo

reproduce: $(VENV)/ready
	for figure in fig3 fig4 fig5; do $(BIN)/hebbnmf reproduce $$figure || exit 1; done

# Compiled kernels are cached by the file they start in: a folder for each state of the source
# keeps a change in another file from being missed.
test: export NUMBA_CACHE_DIR = $(CURDIR)/$(VENV)/kernels-$(shell cat src/hebbnmf/*.py | cksum | cut -d' ' -f1)
test: lint
	$(BIN)/pytest -q -n auto --cov --cov-report= --cov-fail-under=0
	NUMBA_DISABLE_JIT=1 $(BIN)/pytest -q -n auto --cov --cov-append $(KERNEL_TESTS)

lint: $(VENV)/ready-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

bench: $(VENV)/ready-bench
	$(BIN)/python -m benchmarks --large

soak: $(VENV)/ready-dev $(VENV)/ready-bench
	$(BIN)/pytest -q -n auto -m soak
	$(BIN)/python -m benchmarks.soak

$(VENV)/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable .
	touch $@

$(VENV)/ready-%: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable '.[$*]'
	touch $@

clean:
	rm -rf $(VENV) out
