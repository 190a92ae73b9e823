"""How verl is made to follow an ordered file: settings, and code for what they cannot say.

Three ways to run it, told apart by what becomes of the batches: synchronous, one step off, and
fully asynchronous. Source: `verl/utils/dataset/rl_dataset.py` (the dataset reads the file in order
and may filter it), `verl/trainer/ppo/utils.py: create_rl_sampler` (shuffles unless told not to),
`verl/trainer/ppo/v1/trainer_base.py` (the loader drops a partial last batch; each epoch replays the
file), `verl/experimental/` (the two asynchronous ones) and `verl/workers/rollout/router.py`, all of
verl 0.9.1; the same settings hold back to 0.7.1.
"""

from dataclasses import replace

from stages.emit.syntax import hydra
from stages.emit.trainer import FOLDER, Follows, Handover, Settings, Trainer

ROUTER_FILE = "asp_router.yaml"
PLUGINS = ("asp_order.py", "asp_router.py", "asp_sampler.py", "asp_verl_sampler.py")
ROUTER = {ROUTER_FILE: "router_class: asp_router.PlannedRouter\n"}


def settings(handover: Handover) -> Settings:
    """Hydra overrides of `verl.trainer.main_ppo`, a key and its value each."""
    return _common(handover) | {"data.train_batch_size": handover.batch.size}


def fully_async_settings(handover: Handover) -> Settings:
    """Hydra overrides of `verl.experimental.fully_async_policy.fully_async_main`.

    A step takes ppo_mini_batch_size prompts; rollout.total_rollout_steps counts prompts.
    """
    return _common(handover) | {
        "data.train_batch_size": 0,
        "data.gen_batch_size": 1,
        "actor_rollout_ref.actor.ppo_mini_batch_size": handover.batch.size,
        "async_training.require_batches": 1,
        "rollout.total_rollout_steps": handover.num_rows,
        "async_training.partial_rollout": True,
    }


def _common(handover: Handover) -> Settings:
    placed = {
        "actor_rollout_ref.rollout.router_config_path": f"{FOLDER}/{ROUTER_FILE}",
        "+ray_kwargs.ray_init.runtime_env.env_vars.PYTHONPATH": FOLDER,
    }
    return {
        "data.train_files": f"{FOLDER}/{handover.data_file}",
        "data.prompt_key": handover.prompt_column,
        "data.shuffle": False,
        "data.filter_overlong_prompts": False,
        "data.train_max_samples": -1,
        "actor_rollout_ref.rollout.n": handover.samples_per_prompt,
        "trainer.total_epochs": 1,
    } | (placed if handover.num_instances else {})


def concerns(handover: Handover) -> list[str]:
    """A prompt that verl would not take, a sample group of one."""
    found = []
    if handover.samples_per_prompt == 1:
        found.append(
            "the schedule is made for 1 sample a prompt, so rollout.n is 1, which gives GRPO no "
            "group: run partition with --samples-per-prompt N, the n of training, and emit again"
        )
    if handover.has_text_prompts:
        found.append(
            "verl takes prompts as lists of {role, content}, but column "
            f"{handover.prompt_column!r} holds text: make it messages, or give verl a dataset "
            "class of your own (data.custom_cls)"
        )
    return found


def _notes(module: str, kept: str, handover: Handover) -> str:
    return f"""## Run

`overrides.txt` holds one Hydra override a line. `{FOLDER}` in it stands for the absolute path of
this directory; put it in while you pass the lines on (bash, a path without spaces):

```
cd THIS_DIRECTORY
python3 -m {module} $(sed "s|\\{FOLDER}|$PWD|" overrides.txt) YOUR_OTHER_OVERRIDES
```

Of two overrides of one key the later wins, so leave these keys out of your own.

## What is kept

{kept}

verl has no setting for minibatches of varying size. (A trainer class of one's own could ask its
loader for more or fewer prompts; that was not tried, and none comes with this.)
{_placement(handover)}
## Traps of verl

- `data.shuffle` is True by default. With True the schedule is lost, silently.
- `data.filter_overlong_prompts=True` drops rows, and one dropped row shifts every later batch. Give
  emit `--max-prompt-tokens` with `data.max_prompt_length` and `--tokenizer` of training instead; a
  prompt above that limit stops the run (`data.truncation=error`).
- `algorithm.filter_groups.enable` (dynamic sampling, DAPO) draws further prompts for those that it
  filters out, which shifts every later batch.
- `data.train_max_samples` above 0 takes a part of the file.
- `trainer.total_epochs` stays 1: verl would replay this one order every epoch. The file holds
  {handover.passes}, which verl counts as one epoch.
- `trainer.resume_mode=auto` goes on where the file was left, unless the file has changed.
- `trainer.balance_batch` moves rows between ranks inside a step only; leave it on.
- verl's rollout log names no row. What identifies it: the prompt's text, and reward extra info.
"""


def _placement(handover: Handover) -> str:
    if not handover.num_instances:
        return "The schedule places no minibatch on an instance.\n"
    return f"""
The schedule places minibatches on {handover.num_instances} instances. From verl 0.9.1 the router in
`asp_router.py` sends a prompt's requests to the server of that number, in the order in which verl
starts its replicas; earlier versions place prompts themselves: leave out the two lines of the
router. It knows a prompt by the column `priority`, which emit added. `full_determinism` must be
off: it makes request names of priorities, and those of a sample group are equal. A cluster of Ray
that already runs needs this directory on its PYTHONPATH.
"""


def notes(handover: Handover) -> str:
    """How to run it, and the traps."""
    size, samples = handover.batch.size, handover.samples_per_prompt
    kept = "Order and batch boundaries."
    return (
        _notes("verl.trainer.main_ppo", kept, handover)
        + f"""- A partial last batch is dropped (`drop_last=True`): see Remainder above.
- `actor_rollout_ref.actor.ppo_mini_batch_size` (256 prompts by default) must not be above
  {size}; that, or a divisor of it, makes updates of whole batches. {size} x {samples} responses
  must divide by the number of GPUs.
- `data.gen_batch_size` stays null. The modes `colocate_async` and `separate_async` of
  `trainer.v1.trainer_mode` set it to 1; batches then form by age, so a long prompt can slip into
  the next step.

## verl up to 0.7

The overrides hold there too. A sampler comes along for the case that verl's trainer draws more
prompts than a batch; it starts every step where a planned one starts:

```
data.sampler.class_path=$PWD/asp_verl_sampler.py data.sampler.class_name=VerlSampler \\
    data.dataloader_num_workers=0
```

with `export PYTHONPATH=$PWD` before. verl 0.8 removed that hook.
"""
    )


def one_step_off_notes(handover: Handover) -> str:
    """How to run it, and the traps."""
    kept = (
        "Order and batch boundaries: a batch is generated while the one before it is trained on, "
        "so by weights one step old."
    )
    return (
        _notes("verl.experimental.one_step_off_policy.main_ppo", kept, handover)
        + """- A partial last batch is dropped (`drop_last=True`): see Remainder above.
- Its config is found from verl's source folder only (`searchpath: file://verl/trainer/config`).
"""
    )


def fully_async_notes(handover: Handover) -> str:
    """How to run it, and the traps."""
    kept = (
        "The order in which prompts are submitted. Responses join a step as they complete, so "
        "batch boundaries are not kept, and short responses come first."
    )
    return (
        _notes("verl.experimental.fully_async_policy.fully_async_main", kept, handover)
        + """- `async_training.partial_rollout` interrupts responses at a weight update, then
  carries them on. It knows no token budgets: verl chooses when, not the schedule.
- `async_training.staleness_threshold` bounds how many prompts are under way; the queue drops its
  oldest when full.
- Resuming loses prompts that were under way when the checkpoint was written.
"""
    )


_CHECKED = "0.9.1: its dataset, sampler, loader"

VERL = Trainer(
    name="verl",
    title="verl",
    follows=Follows(
        order="settings",
        batches="kept",
        sizes="fixed",
        instances="shipped code",
        partial_rollouts="unsupported",
        checked=f"{_CHECKED}, router; 0.7.1: its sampler",
        proof="run",
    ),
    settings=settings,
    settings_file="overrides.txt",
    render=hydra,
    notes=notes,
    concerns=concerns,
    filters="algorithm.filter_groups.enable",
    place_column="priority",
    plugins=PLUGINS,
    files=ROUTER,
)

_LOOP_READ = f"{_CHECKED}, router run; its loop read"

VERL_ONE_STEP_OFF = replace(
    VERL,
    name="verl-one-step-off",
    title="verl (one step off)",
    follows=replace(
        VERL.follows, batches="kept, a step late", checked=_LOOP_READ, proof="contract"
    ),
    notes=one_step_off_notes,
    plugins=PLUGINS[:2],
)

VERL_FULLY_ASYNC = replace(
    VERL,
    name="verl-fully-async",
    title="verl (fully asynchronous)",
    follows=replace(
        VERL.follows,
        batches="by completion",
        partial_rollouts="settings",
        checked=_LOOP_READ,
        proof="contract",
    ),
    settings=fully_async_settings,
    notes=fully_async_notes,
    plugins=PLUGINS[:2],
)
