"""How near does an iteration come to max(generation, training) where the two are near each other?

Log-normal lengths of sigma 0.5, known; minibatches of 32, 16 a step, dealt to and fro; 8 actors, a
reload of 0.3 s (1% of an iteration), lag bound 4. *Whole* is the run over its steps, with the time
before the first step can train; *steady* leaves out the first 5 steps. *Longest wait* is that of
training for one step, in iterations: on static engines and in dispatch order one minibatch with an
extreme response holds up its step. A token budget cuts one response in 200.

    python benchmarks/near_balance.py [NUM_SEEDS]
"""

import sys
from dataclasses import replace

import numpy as np
from known_lengths import Setting
from machine import heading

from rollout.control.settings import ControlSettings
from rollout.control.uniform import uniform_plan
from rollout.simulator.simulate import simulate

NUM_SKIPPED = 5
TRAINING = (0.9, 1.0, 1.05, 1.1)
QUANTILE = 0.995  # of the lengths, at which a budget stands
WAYS = ((2.0, False), (5.0, False), (2.0, True))  # set point [steps], 5 by default; budget


def measured(setting: Setting, set_point: float, has_budget: bool, num_seeds: int) -> list[float]:
    """Whole and steady over the bound, swing [steps], lag, longest wait, reload and sorting."""
    rows = []
    for seed in range(num_seeds):
        tokens_p, order = setting.tokens(seed)[0], setting.orders(seed)["balanced"]
        budgets = [int(np.quantile(tokens_p, QUANTILE))] if has_budget else []
        plan = uniform_plan(order, setting.size, setting.minibatches, 1, budgets)
        settings = ControlSettings(max_lag=4, set_point=round(set_point * setting.step_samples))
        run = simulate(plan, setting.workload(plan, seed), setting.cluster(), settings)
        bound, ends = setting.bound(seed), run.steps["end_s"].to_numpy()
        # Tails change the samples of a step, so a steady iteration is of as many as a step plans.
        kept = float(run.steps["samples"][NUM_SKIPPED:].sum()) / setting.step_samples
        steady = float(ends[-1] - ends[NUM_SKIPPED - 1]) / kept
        waits = run.steps["start_s"].to_numpy()[NUM_SKIPPED:] - ends[NUM_SKIPPED - 1 : -1]
        units = [ledger for name, ledger in run.ledger_u.items() if name != "TU"]
        total = sum(ledger.total for ledger in units)
        rows.append(
            (run.seconds / setting.num_steps / bound, steady / bound,
             run.queue(NUM_SKIPPED)[1] / setting.step_samples, run.mean_lag(NUM_SKIPPED),
             waits.max() / bound, sum(ledger.reload for ledger in units) / total,
             sum(ledger.sorting for ledger in units) / total)
        )  # fmt: skip
    return [float(value) for value in np.mean(rows, axis=0)]


def main() -> None:
    """Print by engine, ratio and way; then by the length of a run."""
    num_seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    print(heading("Iteration time over max(generation, training), near balance"))
    print(f"Means of {num_seeds} draws of 60 steps; swing in steps, shares of generation.\n")
    print("| engine | training / generation | set point | budget | whole | steady | swing "
          "| mean lag | longest wait | reload | sorting |\n|" + "---|" * 11)  # fmt: skip
    for engine in ("static", "continuous"):
        for training in TRAINING:
            setting = Setting(training=training, engine=engine)
            for set_point, has_budget in WAYS:
                found = measured(setting, set_point, has_budget, num_seeds)
                whole, steady, swing, lag, wait, reload, sorting = found
                print(f"| {engine} | {training} | {set_point:g} steps "
                      f"| {'yes' if has_budget else 'no'} | {whole:.3f} | {steady:.3f} "
                      f"| {swing:.2f} | {lag:.1f} | {wait:.2f} | {reload:.1%} "
                      f"| {sorting:.1%} |")  # fmt: skip
    print("\nBy the length of a run, static, training 1.0, set point 2 steps:\n")
    print("| steps | whole | steady | whole, budget | steady, budget |\n|---|---|---|---|---|")
    for num_steps in (15, 30, 60, 120):
        setting = replace(Setting(training=1.0), num_steps=num_steps)
        plain, cut = (measured(setting, 2.0, way, num_seeds)[:2] for way in (False, True))
        print(f"| {num_steps} | {' | '.join(f'{value:.3f}' for value in (*plain, *cut))} |")


if __name__ == "__main__":
    main()
