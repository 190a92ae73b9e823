"""How MindSpeed-RL is made to follow an ordered file: settings alone, after its preprocessing.

Source: `mindspeed_rl/datasets/dataloader.py: PromptDataLoader`, `prompt_dataset.py`,
`cli/preprocess_data.py`, `cli/train_grpo.py` and `configs/`, 2.3.0, commit 05a90d77.
"""

from stages.emit.syntax import yaml
from stages.emit.trainer import Follows, Handover, Settings, Trainer


def settings(handover: Handover) -> Settings:
    """Keys of its training configuration."""
    return {
        "megatron_training.no_shuffle": True,
        "megatron_training.full_shuffle_instruction_dataset": False,
        "megatron_training.global_batch_size": handover.batch.size,
        "megatron_training.train_iters": handover.num_train_batches,
        "rl_config.n_samples_per_prompt": handover.samples_per_prompt,
        "rl_config.guarantee_order": True,
        "rl_config.shuffle_mini_batch": False,
    }


def notes(handover: Handover) -> str:
    """How to run it, and the traps."""
    return f"""## Run

MindSpeed-RL trains on preprocessed data, so the order goes in there: name this directory's
`{handover.data_file}` as `input` of your `configs/datasets/*.yaml`, with `map_keys` of your
columns, and run `cli/preprocess_data.py`. Then put `mindspeed_rl.yaml` into the configuration of
the training.

## What is kept

Order and batch boundaries. Inside a batch, `guarantee_order` deals consecutive rows to the
generating ranks, in place of a draw at random.

## Traps of MindSpeed-RL

- `no_shuffle` is false by default. With false the schedule is lost, silently.
- An index of an earlier run (`*_decoder_packed_shuffle_idx.npy` beside the data) is used again
  for a file in another order: delete it.
- A partial last batch is dropped, and the file is replayed for `train_iters` batches; here these
  are the {handover.num_train_batches} of the file, which holds {handover.passes}.
- `train_dapo.py` filters prompts, which shifts every later batch, and does not go on in the file
  when it resumes.
- It writes no rollouts to disk, so nothing can be checked afterwards.

There is no setting for the `instance` column, nor for minibatches of varying size. Its makers have
paused new work, and point to verl.
"""


MINDSPEED_RL = Trainer(
    name="mindspeed-rl",
    title="MindSpeed-RL",
    follows=Follows(
        order="settings",
        batches="kept",
        sizes="fixed",
        instances="no",
        partial_rollouts="unsupported",
        checked="2.3.0 (05a90d77): its loader run, the rest read",
        proof="contract",
    ),
    settings=settings,
    settings_file="mindspeed_rl.yaml",
    render=yaml,
    notes=notes,
    filters="the filter of train_dapo.py",
    carries_columns=False,
)
