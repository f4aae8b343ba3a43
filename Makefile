# Everything happens in .venv, made on the first run and reused by the next.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test soak lint clean

demo: $(VENV)/ready
	$(BIN)/python examples/three_gaussians.py

test: lint
	$(BIN)/pytest -q -n auto
	NUMBA_DISABLE_JIT=1 $(BIN)/pytest -q -n auto --cov

soak: $(VENV)/ready-dev
	$(BIN)/pytest -q -n auto -m soak

lint: $(VENV)/ready-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

$(VENV)/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable .
	touch $@

$(VENV)/ready-dev: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) out
