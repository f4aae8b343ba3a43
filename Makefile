# Everything happens in .venv, made on the first run and reused by the next.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OLDEST := .venv-oldest
CLEAN := .venv-dist

# Run again with the JIT off: coverage sees into a kernel only where it is plain Python.
KERNEL_TESTS := $(addprefix tests/test_,$(addsuffix .py,laws memory network offset online_snmf recruitment signed subspace units))

# Compiled kernels are cached by the file they start in: a folder for each state of the source
# keeps a change in another file from being missed.
KERNELS = kernels-$(shell find src/hebbnmf -name '*.py' | LC_ALL=C sort | xargs cat | cksum | cut -d' ' -f1)

.PHONY: demo live reproduce test test-oldest lint docs dist bench soak clean

demo: $(VENV)/ready
	$(BIN)/hebbnmf demo

live: $(VENV)/ready-live
	$(BIN)/hebbnmf live demo

reproduce: $(VENV)/ready
	for figure in fig3 fig4 fig5; do $(BIN)/hebbnmf reproduce $$figure || exit 1; done

test: export NUMBA_CACHE_DIR = $(CURDIR)/$(VENV)/$(KERNELS)
test: lint
	$(BIN)/python tests/compile_kernels.py
	$(BIN)/pytest -q -n auto --dist worksteal --cov --cov-report= --cov-fail-under=0
	NUMBA_DISABLE_JIT=1 $(BIN)/pytest -q -n auto --dist worksteal --cov --cov-append -m 'not (jit or soak)' $(KERNEL_TESTS)

# The tests on the lowest versions that pyproject.toml allows. Old releases raise DeprecationWarnings
# about each other.
test-oldest: export NUMBA_CACHE_DIR = $(CURDIR)/$(OLDEST)/$(KERNELS)
test-oldest: $(OLDEST)/ready
	$(OLDEST)/bin/pytest -q -n auto -W ignore::DeprecationWarning

lint: $(VENV)/ready-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports
	$(BIN)/mypy

docs: export NUMBA_CACHE_DIR = $(CURDIR)/$(VENV)/$(KERNELS)
docs: $(VENV)/ready-docs
	$(BIN)/sphinx-build -W --keep-going -j auto -q docs docs/_build/html
	$(BIN)/python docs/check_site.py

# Wheel and source distribution, each tried where nothing else of this package is: the wheel by a
# user's script, whose types are checked from outside, and by the demo; the source by its tests.
dist: $(VENV)/ready-dist
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*
	$(BIN)/check-wheel-contents dist/*.whl
	$(PYTHON) -m venv --clear $(CLEAN)
	$(CLEAN)/bin/pip install --quiet dist/*.whl mypy
	cp tests/data/user.py $(CLEAN)
	cd $(CLEAN) && bin/mypy --strict user.py && bin/python user.py && bin/hebbnmf demo --quick
	mkdir $(CLEAN)/source && tar xzf dist/*.tar.gz -C $(CLEAN)/source --strip-components 1
	cd $(CLEAN)/source && ../bin/pip install --quiet --editable '.[dev]' && ../bin/pytest -q -n auto

bench: $(VENV)/ready-bench
	$(BIN)/python -m benchmarks --large --out docs/benchmarks.json

soak: $(VENV)/ready-dev $(VENV)/ready-bench
	$(BIN)/python -m benchmarks.soak
	$(BIN)/pytest -q -n auto -m soak

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/ready: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --editable .
	touch $@

$(VENV)/ready-%: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --editable '.[$*]'
	touch $@

# Made anew after every change of the bounds: packages that are there would not be lowered.
$(OLDEST)/ready: pyproject.toml
	$(PYTHON) -m venv --clear $(OLDEST)
	$(OLDEST)/bin/pip install --quiet uv
	$(OLDEST)/bin/uv pip install --quiet --python $(OLDEST)/bin/python --resolution lowest-direct --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) $(OLDEST) $(CLEAN) dist out docs/_build docs/gallery docs/generated
