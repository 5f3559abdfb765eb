# Each target sets up .venv on first use, from constraints.txt, and is quick the second time.
FOUND := $(shell command -v python3.11 || command -v python3)
PYTHON ?= $(FOUND)
VENV := .venv
RUN := $(VENV)/bin
ENGINES := .engines
# TORCH_INDEX joins the indexes of pip's own settings. PIP_EXTRA_INDEX_URL would replace those of pip.conf.
SOURCES = constraints.txt $(addprefix --extra-index-url ,$(TORCH_INDEX))
# To compile all modules takes half of pip's time. Python compiles those that it imports, and .ready the others meanwhile.
PIP = $(RUN)/pip install --disable-pip-version-check --no-compile -c $(SOURCES)
# Of pip's lines, the large files, from 10 MB on: without any, minutes pass in silence.
TELL = sed -un -E 's@%2B@+@; s@^ *(Downloading|Using cached) (.*/)?([^-/]*-[^-/]*)-.* \(([0-9]{2,}\.[0-9] MB)\)$$@  \3, \4@p'
COMPILE := from northbridge_cpu_sim.build import extension, recipe; from northbridge_cpu_sim.settings import SimSettings; \
	extension.locate(SimSettings.read(), recipe.Recipe())
# The distributions of this repository.
FOLDERS := . conformance backends/cpu_sim backends/hpu backends/npu backends/sdaa backends/xpu

# Where it is set, each process compiles anew what it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-fast test-all chips engines conformance ops zoo soak real gpu gpu-wheels check mypy pyright bench reference docs shown matrix compat contract-npu clean

help: ## what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

demo: setup ## train a small ConvNet on real digits, on two simulated chips; TORCH_INDEX=URL is one more index of pip for torch
	@$(RUN)/python examples/digits.py

test: setup chips engines ## run the tests that need no training, and a few that train; about 10 minutes on 2 cores
	@echo "make test: one suite more at once than there are cores; ARGS goes to pytest, and ARGS=--tier-report lists what is left out"
	@$(RUN)/python -m tests standard $(ARGS)

test-fast: setup ## run the tests that start no process and no compiler; at most 2 minutes
	@$(RUN)/python -m tests fast $(ARGS)

test-all: setup chips engines ## run every test, with the proofs of the simulated chips up to C3; 45 to 90 minutes on 2 cores
	@NORTHBRIDGE_SIMULATE=xpu $(RUN)/python -c "import northbridge; northbridge.load('xpu')"
	@$(RUN)/python -m tests full $(ARGS)

chips: setup # compile the simulated chips, where they are not in the cache
	@$(RUN)/python -c "import northbridge; northbridge.load('cpu_sim')"
	@NORTHBRIDGE_SIMULATE=hpu $(RUN)/python -c "import northbridge; northbridge.load('hpu')"

engines: $(ENGINES)/.ready ## put DeepSpeed, Ray, float8 libraries and models into .engines, apart from .venv: 860 MB

conformance: setup chips engines ## prove the three simulated chips up to C3; writes conformance-reports/*/index.html
	@echo "make conformance: the suite on cpu_sim, hpu and sdaa side by side; about 10 minutes on 2 cores"
	@$(RUN)/python -m tests.conformance

ops: setup ## compare all of torch's operators and layers on the simulated chip with the CPU, bit for bit
	@echo "make ops: about 5 minutes on 2 cores; a tenth of it is in make test-all"
	@$(RUN)/python -c "import northbridge; northbridge.load('cpu_sim')"
	@$(RUN)/python -m tests.ops

zoo: setup chips engines ## train models that people train on three simulated chips and on the CPU; writes tests/zoo/models.md
	@echo "make zoo: about 6 minutes on 2 busy cores; a sample of it is in make test-all"
	@$(RUN)/python -m tests.zoo

soak: setup ## train under faults at random moments, and look for what goes wrong: MINUTES=60 CHIP=cpu_sim
	@$(if $(filter-out cpu_sim,$(CHIP)),NORTHBRIDGE_SIMULATE=$(CHIP)) $(RUN)/python -c "import northbridge; northbridge.load('$(or $(CHIP),cpu_sim)')"
	@$(RUN)/python -m tests.soak $(or $(MINUTES),60) $(or $(CHIP),cpu_sim)

real: setup ## train and prove third parties' real devices, Vulkan on Mesa's driver and rgpu; DEVICES=vulkan for one
	@echo "make real: Vulkan needs mesa-vulkan-drivers, rgpu 6 GB for torch 2.14; about 15 minutes on 2 cores"
	@$(RUN)/python -m tests.real $(or $(DEVICES),vulkan rgpu)

gpu: ## run examples/vendor_cuda on this machine's GPU, offline and in nine minutes; after `make gpu-wheels`
	@$(or $(GPU_PYTHON),python3) tests/gpu/run.py $(if $(OUT),--out $(OUT)) $(ARGS)

gpu-wheels: setup ## put the wheels that `make gpu` installs into .gpu, to be copied to a machine without a network
	@$(RUN)/python -m tests.gpu.prepare $(ARGS)

check: setup ## run the linter, the formatter, both type checkers, and the checks of words, imports, dependencies and configuration
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/codespell
	$(RUN)/python -m tests.words
	$(RUN)/lint-imports --no-cache --no-logo
	$(RUN)/deptry core
	@for folder in $(filter-out .,$(FOLDERS)); do (cd $$folder && $(CURDIR)/$(RUN)/deptry .) || exit; done
	$(RUN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/tests.yml \
		backends/xpu/.github/workflows/ci.yml backends/npu/.github/workflows/ci.yml
	$(RUN)/check-jsonschema --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/bug.yml .github/ISSUE_TEMPLATE/chip.yml
	@git log --no-merges --format='%h%x09%s' origin/main..HEAD 2>/dev/null | awk -F'\t' \
		'length($$2) > 72 { print "subject over 72 characters: " $$0; long = 1 } END { exit long }'
	@$(MAKE) --no-print-directory -j2 mypy pyright

mypy: setup
	$(RUN)/mypy

pyright: setup
	$(RUN)/pyright --project . # and not the configuration of a folder above

bench: setup engines ## measure against the CPU and Gloo; writes bench/report.json and bench/figures.md, and docs/measured.md
	@echo "make bench: measuring, about 20 minutes on 2 cores; leave the machine alone meanwhile. GO_ON=1 goes on with a run that was stopped"
	@$(RUN)/python -m bench $(if $(GO_ON),--go-on)

reference: setup ## write the pages about commands and variables from the code
	@$(RUN)/python docs/scripts/reference.py

docs: setup ## build the site into site/
	@echo "make docs: building the site into site/"
	@NO_MKDOCS_2_WARNING=1 $(RUN)/mkdocs build --strict --quiet
	@echo "to read it: python3 -m http.server --directory site"

contract-npu: setup ## compare the contract of npu with a wheel of torch_npu: WHEEL=torch-npu==2.13.0; writes backends/npu/contract-report.md
	@$(RUN)/python -m tools.contract npu $(or $(WHEEL),torch-npu==2.14.0) > backends/npu/contract-report.md

shown: setup chips ## run again what pages show of simulated chips: doctor, hang, a report of conformance
	@echo "make shown: about 3 minutes on 2 busy cores"
	@$(RUN)/python docs/scripts/shown.py

matrix: setup ## train on every Lightning release that is supported; writes tests/matrix/results.md
	@echo "make matrix: 18 rows of 16 trainings each, about 40 minutes on 2 cores; a few MB a row"
	@$(RUN)/python -m tests.matrix

# A release in PYTHON is what is tried; .venv stays Python 3.11's.
compat: WANTED := $(if $(TORCH),torch $(TORCH),$(if $(filter 3.%,$(PYTHON)),Python $(PYTHON)))
compat: override PYTHON := $(if $(filter 3.%,$(PYTHON)),$(FOUND),$(PYTHON))
compat: setup ## try another torch or another Python: TORCH=2.15.0 or PYTHON=3.13; writes tests/compat/results.md
	@echo "make compat: an environment apart in .compat, 6 GB where torch brings CUDA's libraries, then 10 to 50 minutes on 2 cores"
	@$(RUN)/python -m tests.compat $(WANTED)

clean: ## remove the environments and what the tools left
	rm -rf $(VENV) $(ENGINES) .compat .real .gpu site dist conformance-reports .mypy_cache .ruff_cache .pytest_cache

$(ENGINES)/.ready: constraints-engines.txt | setup
	@rm -rf $(ENGINES)
	@# DeepSpeed's setup asks the installed torch, and compiles its operators on first use.
	@DS_BUILD_OPS=0 $(RUN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --target $(ENGINES) -r constraints-engines.txt
	@# Where torchvision's wheel, which is CUDA's, can be found but not imported, Ray, transformers and peft fail.
	@mkdir $(ENGINES)/vision && mv $(ENGINES)/torchvision* $(ENGINES)/vision
	@touch $@

setup: $(VENV)/.ready

# So that a pipe fails with pip.
$(VENV)/.ready: SHELL := bash
$(VENV)/.ready: .SHELLFLAGS := -o pipefail -c

$(VENV)/.ready: constraints.txt $(addsuffix /pyproject.toml,$(FOLDERS))
	@test -n "$(PYTHON)" && $(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || \
		{ echo "Python 3.11 was not found: install it, or say make PYTHON=/path/to/python3.11"; exit 1; }
	@command -v g++ >/dev/null || { echo "no C++ compiler was found: apt install g++ (the simulated chip is compiled on first use)"; exit 1; }
	@echo "setting up $(VENV), once: 1.7 GB and a few minutes with TORCH_INDEX=https://download.pytorch.org/whl/cpu, else more"
	@test -x $(RUN)/python || $(PYTHON) -m venv $(VENV)
	@echo "1 of 4: torch 2.13.0"
	@$(PIP) "pip==26.3" | $(TELL)
	@$(PIP) torch==2.13.0 filelock ninja packaging pluggy pydantic rich setuptools typing_extensions | $(TELL)
	@# The simulated chip is compiled on the core that pip leaves idle; who needs it meanwhile waits for it.
	@PYTHONPATH=$(CURDIR)/core:$(CURDIR)/backends/cpu_sim $(RUN)/python -c "$(COMPILE)" >/dev/null 2>&1 &
	@echo "2 of 4: both Lightnings and the tools, while the simulated chip is compiled"
	@$(PIP) --group dev | $(TELL)
	@echo "3 of 4: Northbridge and its chips, from this folder"
	@$(PIP) --no-build-isolation \
		-e . -e ./conformance -e ./backends/cpu_sim -e ./backends/hpu -e ./backends/npu -e ./backends/sdaa -e ./backends/xpu | $(TELL)
	@echo "4 of 4: what the demo and the plots need"
	@$(PIP) --upgrade --target $(VENV)/science --group science | $(TELL)
	@printf '../../../science\nimport os; "SHORT_PROCESS" in os.environ and __import__("short_process")\n' \
		> $(VENV)/lib/python3.11/site-packages/science.pth
	@ln -sf ../../../../tests/short_process.py $(VENV)/lib/python3.11/site-packages/short_process.py
	@nice $(RUN)/python -m compileall -qq $(VENV)/lib $(VENV)/science >/dev/null 2>&1 &
	@touch $@
