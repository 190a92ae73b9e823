"""How OpenRLHF is made to follow an ordered file: it shuffles always, so by a strategy of our own.

Source: `openrlhf/trainer/ppo_trainer.py: prepare_datasets` (asks the strategy for a shuffled
loader), `openrlhf/utils/deepspeed/deepspeed.py: setup_dataloader` (takes a sampler),
`openrlhf/trainer/ppo_utils/samples_generator.py` and `openrlhf/cli/train_ppo_ray.py` (flags), 0.11.
"""

from stages.emit.syntax import flags
from stages.emit.trainer import FOLDER, Follows, Handover, Settings, Trainer


def settings(handover: Handover) -> Settings:
    """Arguments of `openrlhf.cli.train_ppo_ray`."""
    size, samples = handover.batch.size, handover.samples_per_prompt
    chat = {} if handover.has_text_prompts else {"data.apply_chat_template": True}
    carry = {"train.async_enable": True, "train.partial_rollout_enable": True}
    return {
        "data.prompt_dataset": f"{FOLDER}/{handover.data_file}",
        "data.input_key": handover.prompt_column,
        **chat,
        "data.max_samples": handover.num_rows,
        "rollout.batch_size": size,
        "rollout.n_samples_per_prompt": samples,
        "train.batch_size": size * samples,
        "train.num_episodes": 1,
    } | (carry if handover.has_budgets else {})


def notes(handover: Handover) -> str:
    """How to run it, and the traps."""
    size, samples = handover.batch.size, handover.samples_per_prompt
    return f"""## Run

OpenRLHF shuffles its prompts whatever it is told. `asp_openrlhf.py` starts it with a strategy whose
loader of training prompts has the planned order:

```
export ASP_DIR=THIS_DIRECTORY PYTHONPATH=THIS_DIRECTORY:$PYTHONPATH
eval "ASP_ARGS=($(tr '\\n' ' ' < "$ASP_DIR/openrlhf_args.txt"))"
python3 -m asp_openrlhf "${{ASP_ARGS[@]}}" YOUR_OTHER_ARGUMENTS
```

in the place of `python3 -m openrlhf.cli.train_ppo_ray`. Ray's workers need the same PYTHONPATH.

## What is kept

Order and batch boundaries: {size} prompts a rollout, {size} x {samples} samples a training
step. With `--train.async_enable` a batch is generated while another is trained on.

## Traps of OpenRLHF

- Started without `asp_openrlhf`, the schedule is lost, silently.
- `--algo.dynamic_filtering_enable` (DAPO) draws a prompt for each that it filters out, which shifts
  every later batch; nothing tells the sampler where a step starts.
- `--rollout.vllm_generate_batch_size` above {size} generates further than a step needs.
- `--train.num_episodes` stays 1: the file holds {handover.passes}.
- `--data.max_samples` takes the first rows; it is that of the file here.
- `--data.prompt_probs` mixes several files at random: give this one alone.
- `--train.partial_rollout_enable` (asynchronous only) pauses responses at a weight update and
  carries them on. It knows no token budgets.
- `--data.dataloader_num_workers` stays 0, so that a checkpoint holds the place in the file.
- OpenRLHF writes no rollouts to disk, so nothing can be checked afterwards.

A prompt goes to the engine with the fewest requests; there is no setting for the `instance` column,
nor for minibatches of varying size.
"""


OPENRLHF = Trainer(
    name="openrlhf",
    title="OpenRLHF",
    follows=Follows(
        order="shipped code",
        batches="kept",
        sizes="fixed",
        instances="no",
        partial_rollouts="settings",
        checked="0.11.0 (3c3be623): source read",
        proof="contract",
    ),
    settings=settings,
    settings_file="openrlhf_args.txt",
    render=flags,
    notes=notes,
    filters="--algo.dynamic_filtering_enable",
    carries_columns=False,
    skips_remainder=False,
    plugins=("asp_openrlhf.py", "asp_order.py", "asp_sampler.py"),
)
