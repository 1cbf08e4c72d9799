# Everything runs in the project's own environment, .venv, made on first use.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
CLUSTERS := .venv/.clusters

.PHONY: setup demo test test-slow check format bench clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $(READY)

$(CLUSTERS): $(READY)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[ray,dask]'
	touch $(CLUSTERS)

demo: $(READY)
	$(BIN)/bome demo

test: $(READY)
	$(BIN)/pytest -n 2

test-slow: $(CLUSTERS)
	$(BIN)/pytest -m slow

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(MAKE) --no-print-directory test

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY)
	$(BIN)/python -m timings

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
