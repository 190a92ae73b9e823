"""How prime-rl is made to follow an ordered file: its default, within an environment that reads it.

Source: `src/prime_rl/orchestrator/curriculum/samplers/standard.py` (tasks in source order, over and
over) and `packages/prime-rl-configs/src/prime_rl/configs/orchestrator.py`, 0.8.1.dev67, commit
559b4477.
"""

from stages.emit.trainer import Follows, Handover, Settings, Trainer


def settings(handover: Handover) -> Settings:
    """Keys of the orchestrator's configuration."""
    return {
        "batch_size": handover.batch.size * handover.samples_per_prompt,
        "group_size": handover.samples_per_prompt,
        "max_steps": handover.num_train_batches,
    }


def render(values: Settings) -> str:
    """A TOML table."""
    lines = (f"{key} = {value}\n" for key, value in values.items())
    return "[orchestrator]\n" + "".join(lines)


def notes(handover: Handover) -> str:
    """How to run it, and the traps."""
    return f"""## Run

prime-rl draws prompts from `verifiers` environments. Let the taskset of yours read
`{handover.data_file}` row by row, with a `Task.key` of the row's number: keys must be unique, and a
prompt stands {handover.num_epochs} times in a file of {handover.num_epochs} epochs. Then put
`prime_rl.toml` into your configuration.

## What is kept

The order in which prompts are submitted, by the default curriculum (`type = "standard"`). Rollouts
join a step as they complete, so batch boundaries are not kept.

## Traps of prime-rl

- Of several `[[orchestrator.train.source]]` one is drawn at random for each task: give one.
- `type = "difficulty_pool"` draws at random.
- Admission gates drop sample groups after generation.
- Episodes older than `max_off_policy_steps` (8) are dropped, long ones first.
- `token_batch_size` in the place of `batch_size` makes steps of varying size.
- After the last task it starts over; `max_steps` ends the run where the file ends.

There is no setting for the `instance` column.
"""


PRIME_RL = Trainer(
    name="prime-rl",
    title="prime-rl",
    follows=Follows(
        order="settings",
        batches="by completion",
        sizes="varying",
        instances="no",
        partial_rollouts="unsupported",
        checked="0.8.1.dev67 (559b4477): its sampler run, the rest read",
        proof="contract",
    ),
    settings=settings,
    settings_file="prime_rl.toml",
    render=render,
    notes=notes,
    filters="an admission gate",
)
