# Everything runs in .venv, made from the pinned versions in constraints.txt.
#   make demo    the main job on real input        make test    checks and tests
#   make table   the tables in README.md and docs/language.md
#   make fuzz    every reader for a minute: make fuzz SECONDS=600
#   make bench   the figures of docs/              make check   lint, format, types
#   make conformance  other projects' tests, for docs/conformance.md: make conformance SUITES="torch onnx"
#   make soak    random tests with many examples, and traps for the matchers, for SOAK_MINUTES (60)
#   make mutation  which checks of the matchers no search of the tests notices
#   make gpu     a bundle to run kernels on a machine with a CUDA GPU (docs/gpu.md)

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Makes SPIR-V of WGSL, in Node.js.
NAGA := naga-wasm@30.1.0
# NVIDIA's compiler and assembler, where no toolkit is installed.
NVCC := nvidia-cuda-nvcc nvidia-cuda-cccl
# Modules are compiled when they are first imported: to compile all of PyTorch takes longer than to install it.
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt
# Neighbours stay in one process, for what they share, until another has nothing left to do; each takes a gigabyte.
# What pytest makes of modules before it imports them is kept, even where Python is told to keep nothing.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/pytest --numprocesses auto --maxprocesses 8 --dist worksteal
SOAK_MINUTES ?= 60
# Modules of matchers/ that a wrong match could come from.
MUTATED ?= search state inputs operators verdicts constants canonical chains prefilter lookalikes uses extents size_bounds
SOURCES := opsplice matchers rewrites spec_lang targets samples tests benchmarks scripts
# The package as it is installed, for the type checker: it does not follow the package-dir mapping of pyproject.toml.
TYPES := build/types

.PHONY: setup frontends demo test table check bench gpu fuzz conformance soak mutation format clean
# For each target of `make fuzz`.
SECONDS ?= 60

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' \
		|| { echo "opsplice needs Python 3.11 to 3.13; choose one with: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -m venv --clear $(VENV) \
		|| { echo "no venv: on Debian, install it with: apt install python3-venv"; exit 1; }
	@echo "installing into $(VENV) ..."
	@$(PIP) --editable '.[dev,cuda]'
	@$(PIP) --no-deps --editable kernels
	@$(PIP) --no-deps slangtorch \
		|| echo "no Slang compiler for this machine: its tests will be skipped"
	@command -v nvcc >/dev/null \
		|| $(PIP) $(NVCC) \
		|| echo "no nvcc and ptxas for this machine: their tests will be skipped"
	@npm install --silent --global --prefix $(VENV) --ignore-scripts $(NAGA) >/dev/null 2>&1 \
		|| echo "no npm, or it cannot install $(NAGA): tests with WGSL will be skipped"
	@touch $@

# What the tests need besides: several hundred MB of other people's frameworks.
frontends: $(VENV)/.frontends

$(VENV)/.frontends: $(VENV)/.ready
	@echo "installing frontends into $(VENV) ..."
	@$(PIP) --editable '.[frontends]' \
		|| echo "PyTorch, JAX and ONNX cannot all be installed here: tests of those that are missing will be skipped"
	@touch $@

demo: setup
	@$(BIN)/python samples/measured/demo.py

# One installs what the other does not need.
test: setup
	@$(MAKE) --no-print-directory --jobs=2 frontends check
	@$(PYTEST)

table: setup
	@$(BIN)/python -m scripts.equalities
	@OPSPLICE_TABLE=write $(PYTEST) -m cell

check: setup
	@$(BIN)/ruff check --quiet $(SOURCES)
	@$(BIN)/ruff format --quiet --check $(SOURCES)
	@rm -rf $(TYPES) && mkdir -p $(TYPES)/opsplice && ln -s $(CURDIR)/opsplice/* $(TYPES)/opsplice/
	@for part in matchers rewrites spec_lang targets; do ln -s $(CURDIR)/$$part $(TYPES)/opsplice/$$part; done
	@ln -s $(CURDIR)/benchmarks $(TYPES)/benchmarks
	@cd $(TYPES) && MYPYPATH=. $(CURDIR)/$(BIN)/mypy --config-file $(CURDIR)/pyproject.toml \
		--no-error-summary --cache-dir $(CURDIR)/.mypy_cache -p opsplice -p benchmarks

format: setup
	@$(BIN)/ruff check --quiet --fix $(SOURCES)
	@$(BIN)/ruff format --quiet $(SOURCES)

bench: setup
	@$(BIN)/python -m benchmarks

fuzz: setup
	@$(PIP) --editable '.[fuzz]' \
		|| echo "atheris cannot be installed: inputs are not guided by what they reach"
	@$(BIN)/python -m tests.fuzz --seconds $(SECONDS) $(TARGETS)

conformance: frontends
	@$(BIN)/python -m scripts.conformance $(SUITES)

soak: setup
	@OPSPLICE_SOAK=1 $(PYTEST) -k random
	@$(BIN)/python -m scripts.soak --minutes $(SOAK_MINUTES)

mutation: setup
	@$(BIN)/python -m scripts.mutation $(MUTATED)

gpu: setup
	@$(BIN)/python -m scripts.gpu_bundle

clean:
	rm -rf $(VENV) build .mypy_cache .pytest_cache .ruff_cache .hypothesis
