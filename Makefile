# The two commands for a fresh machine are `make demo` and `make test`; both make their own virtual environment.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help install demo test lint unit referee bench gpu-test clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(READY)  ## make the virtual environment with everything in it (a few GB: torch)

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[torch,dev]'
	@touch $@

# Without a GPU the script runs at its real size on a phantom one, which needs a C compiler; else at a small one.
PHANTOM := $(shell [ "$$(uname -sm)" = "Linux x86_64" ] && command -v cc gcc clang | head -1)

demo: $(READY)  ## tune a script of objectives/ from beginning to end, in demo/
	@$(BIN)/python -m autotune doctor
	@mkdir -p demo
	$(BIN)/python -m autotune run --script objectives/transformer_varlen.py --trials 60 --study demo \
	    --storage sqlite:///demo/autotune.db $(DEMO_RUN) $(if $(PHANTOM),,-- --smoke)
	$(BIN)/python -m autotune export demo --storage sqlite:///demo/autotune.db -o demo/best.env --force
	@cat demo/best.env

test: $(READY) lint unit  ## lint, types and all tests

lint: $(READY)  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Most of the time real processes are started and waited for. A file's tests share what they prepare.
unit: $(READY)  ## the tests alone, several at a time
	$(BIN)/python -m pytest -q -n auto --maxprocesses 4 --dist loadfile

referee: $(READY)  ## compare the model with PyTorch's own allocator for MINUTES (default 10)
	$(BIN)/python -m tests.referee.fuzz --minutes $(or $(MINUTES),10)

bench: $(READY)  ## speed of the model, of PyTorch's own allocator, and of reading snapshots
	$(BIN)/python -m benchmarks

gpu-test: $(READY)  ## the tests that need a CUDA GPU
	$(BIN)/python -m pytest -q -m gpu tests/gpu

clean:  ## remove the virtual environment, caches and the demo
	rm -rf $(VENV) demo .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info
