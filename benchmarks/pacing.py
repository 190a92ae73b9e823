"""How fast does pacing settle after a disturbance, and how far does it overshoot?

Set point against watermark, on lengths that suddenly double, and on a generation unit of four that
is lost and comes back. Watched is the *level*: the mean over one iteration, sliding, of the samples
in the Training Queue, and of the inventory position (in flight plus queued), in steps. It has
*settled* when it stays for 5 iterations within half a step of the mean level of a run that was
disturbed from its start. *Above* and *below* are the largest excursions beyond the two mean levels,
the old one and the new, in the 15 iterations after.

    python benchmarks/pacing.py [PLOT.svg]    # a plot needs matplotlib: pip install -e '.[bench]'
"""

import sys
from functools import cache

import numpy as np
from drawing import pyplot, save
from known_lengths import Setting
from machine import heading
from numpy.typing import NDArray

from rollout.control.settings import ControlSettings
from rollout.simulator.run import Run
from rollout.simulator.simulate import simulate
from rollout.simulator.troubles import Disturbance, Drift, UnitOutage

Floats = NDArray[np.float64]
Level = tuple[float, float]  # mean and standard deviation [steps]

SETTING = Setting(num_steps=55, training=1.05)
NUM_SEEDS = 3
SIZE = SETTING.step_samples
START, END = 20, 30  # iterations: when a disturbance begins, and when the lost unit is back
STAY, NEAR = 5, 15  # iterations
TOLERANCE = 0.5  # steps
PACINGS = {
    "set point, 2 steps": ControlSettings(max_lag=4, set_point=2 * SIZE),
    "watermark, 1 to 2 steps": ControlSettings(max_lag=4, pacing="watermark"),
    "set point, 5 steps": ControlSettings(max_lag=4),
}
EVENTS = ("lengths double", "a unit of four is lost", "it comes back")
WATCHED = {"queue": "queued_e", "position": "position_e"}


def disturbed(event: str, start_s: float, end_s: float) -> list[Disturbance]:
    """What happens."""
    if event == "nothing":
        return []
    if event == "lengths double":
        return [Drift(start_s, 2.0)]
    return [UnitOutage(start_s, 3, end_s if event == "it comes back" else None)]


@cache
def run(pacing: str, event: str, start: int, seed: int) -> Run:
    """One run of the balanced order, disturbed after so many iterations."""
    plan = SETTING.plan(SETTING.orders(seed)["balanced"])
    iteration = SETTING.bound(seed)
    happens = disturbed(event, start * iteration, END * iteration)
    workload, cluster = SETTING.workload(plan, seed), SETTING.cluster()
    return simulate(plan, workload, cluster, PACINGS[pacing], happens)


def sliding(done: Run, watched: str, window_s: float, times: Floats) -> Floats:
    """Mean of the window that ends at each time [steps]."""
    time_e = done.occupancy.time_e
    values_e: Floats = getattr(done.occupancy, WATCHED[watched])
    area_e = np.concatenate([[0.0], np.cumsum(np.diff(time_e) * values_e[:-1])])
    start = np.maximum(times - window_s, 0.0)
    area: Floats = np.interp(times, time_e, area_e) - np.interp(start, time_e, area_e)
    return area / np.maximum(times - start, 1e-9) / SIZE


def level_of(done: Run, watched: str, window_s: float) -> Level:
    """Of a run, without its filling and draining."""
    times = np.linspace(8 * window_s, done.seconds - 4 * window_s, 1000)
    level = sliding(done, watched, window_s, times)
    return float(level.mean()), float(level.std())


def response(
    done: Run, watched: str, window_s: float, start_s: float, old: float, new: float
) -> tuple[float, float, float]:
    """Settling time [iterations], largest excursion above and below [steps]."""
    times = np.arange(0, done.seconds - 4 * window_s - start_s, window_s / 20)
    level = sliding(done, watched, window_s, start_s + times)
    is_near = np.abs(level - new) <= TOLERANCE
    stays = np.lib.stride_tricks.sliding_window_view(is_near, 20 * STAY).all(axis=1)
    settled = times[np.argmax(stays)] / window_s if stays.any() else np.inf
    near = level[times <= NEAR * window_s]
    above, below = float(near.max()) - max(old, new), min(old, new) - float(near.min())
    return settled, max(0.0, above), max(0.0, below)


def measured(pacing: str, event: str, seed: int) -> dict[str, list[float]]:
    """By what is watched: level before and after, and the response."""
    iteration = SETTING.bound(seed)
    plain = run(pacing, "nothing", START, seed)
    is_back = event == "it comes back"
    later = plain if is_back else run(pacing, event, 0, seed)
    done = run(pacing, event, START, seed)
    start_s = iteration * (END if is_back else START)
    window_s = 2 * iteration if event == "lengths double" else iteration
    rows = {}
    for watched in WATCHED:
        old, new = level_of(plain, watched, iteration), level_of(later, watched, window_s)
        found = response(done, watched, window_s, start_s, old[0], new[0])
        rows[watched] = [*old, *new, *found]
    return rows


def main() -> None:
    """Print the table; draw the plot where a file is named."""
    print(heading("Pacing under a disturbance"))
    print(
        f"Static, {SETTING.num_steps} steps of {SIZE}, training {SETTING.training} of "
        f"generation, lag bound 4; disturbed after {START} iterations,\nthe unit is back after "
        f"{END}. Levels in steps, times in iterations (of then); means of {NUM_SEEDS} draws,\n"
        "of times and excursions the largest in brackets; +- is a standard deviation.\n"
    )
    print("| disturbance | pacing | watched | before | after | settled | above | below |\n|"
          + "---|" * 8)  # fmt: skip
    for event in EVENTS:
        for name in PACINGS:
            runs = [measured(name, event, seed) for seed in range(NUM_SEEDS)]
            for watched in WATCHED:
                rows = np.array([found[watched] for found in runs])
                mean, most = rows.mean(axis=0), rows.max(axis=0)
                print(
                    f"| {event} | {name} | {watched} | {mean[0]:.2f} +- {mean[1]:.2f} "
                    f"| {mean[2]:.2f} +- {mean[3]:.2f} | {mean[4]:.1f} ({most[4]:.1f}) "
                    f"| {mean[5]:.2f} ({most[5]:.2f}) | {mean[6]:.2f} ({most[6]:.2f}) |"
                )
    if len(sys.argv) > 1:
        plot(sys.argv[1])


def plot(path: str) -> None:
    """Queue and position over time, for lengths that double and for a unit lost and back."""
    plt = pyplot()
    iteration = SETTING.bound(0)
    times = np.arange(12, 50, 1.0) * iteration
    titles = {EVENTS[0]: EVENTS[0], EVENTS[2]: "a unit of four is lost, and comes back"}
    figure, axes = plt.subplots(2, 2, figsize=(8, 4.4), sharex=True, sharey="row")
    for column, (event, title) in enumerate(titles.items()):
        window_s = 2 * iteration if event == "lengths double" else iteration
        for name in PACINGS:
            done = run(name, event, START, 0)
            for row, watched in enumerate(WATCHED):
                level = sliding(done, watched, window_s, times)
                axes[row][column].plot(times / iteration, level, linewidth=1, label=name)
        for row in range(2):
            for mark in (START, END)[: column + 1]:
                axes[row][column].axvline(mark, color="0.7", linewidth=0.8)
            axes[row][column].locator_params(nbins=5)
        axes[0][column].set_title(title)
        axes[1][column].set_xlabel("iterations (before the disturbance)")
    axes[0][0].set_ylabel("Training Queue [steps]")
    axes[1][0].set_ylabel("in flight + queued [steps]")
    axes[0][0].legend(frameon=False)
    save(figure, path)


if __name__ == "__main__":
    main()
