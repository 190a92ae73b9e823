"""What balance says of its groups."""

from collections.abc import Mapping

import polars as pl

from stages.balance.config import BalanceConfig
from stages.tables.errors import log


def report(minibatches: pl.DataFrame, results: Mapping[str, float], config: BalanceConfig) -> None:
    """Say what came out, and what of the request could not be met."""
    _warn(minibatches, config)
    if "latest_instance" in results:
        log.info(
            "%d instances: in the worst group the last finishes %.3f%% after the bound",
            len(config.instance_speeds), 100 * results["latest_instance"],
        )  # fmt: skip
    if results["num_split"]:
        log.info(
            "%s cut in two to fill train batches, which adds %.3f%% to the %s predicted",
            counted(results["num_split"], "minibatch was", "minibatches were"),
            100 * results["load_added"], config.load,
        )  # fmt: skip
    groups = counted(results["num_groups"], "group")
    if results["num_long_groups"]:
        groups += f", {counted(results['num_long_groups'], 'of them')} set apart for the longest"
    log.info(
        "%s%s in %s",
        f"{config.epochs} epochs of " if config.epochs > 1 else "",
        counted(results["num_minibatches"], "minibatch", "minibatches"), groups,
    )  # fmt: skip
    _report_objectives(results, config)
    _report_bias(results, config)


def counted(number: float, one: str, many: str | None = None) -> str:
    """`1 group`, `2 groups`."""
    return f"{number:.0f} {one if number == 1 else many or one + 's'}"


def _report_objectives(results: Mapping[str, float], config: BalanceConfig) -> None:
    """Loads and longest of the groups, each beside what no grouping is below."""
    whose = " of the other groups" if results["num_long_groups"] else ""
    log.info(
        "largest %s%s %.3f%% above the share (no grouping is below %.3f%%); longest response of a "
        "group %.1f tokens on average (none below %.1f); gap of %s %.3f%%",
        config.load, whose, 100 * results["imbalance"], 100 * results["imbalance_bound"],
        results["mean_longest"], results["mean_longest_bound"],
        f"method {config.method}" if config.method else f"policy {config.policy}",
        100 * results["gap"],
    )  # fmt: skip


def _report_bias(results: Mapping[str, float], config: BalanceConfig) -> None:
    """How far the groups are from the whole, beside what chance gives."""
    whole = {
        "length_bias": "lengths of a group are off the whole's by %s of the mean length",
        "stratum_bias": f"{config.stratify}: %s of a group's prompts are off the whole's mix",
    }
    for name, words in whole.items():
        if f"{name}_mean" not in results:
            continue
        mean, largest, random_mean, random_high = (
            f"{results[f'{name}_{field}']:.1%}"
            for field in ("mean", "largest", "random_mean", "random_high")
        )
        log.info(
            words + ", at most %s (of as many random prompts %s, 95%% of draws within %s)",
            mean, largest, random_mean, random_high,
        )  # fmt: skip


def _warn(minibatches: pl.DataFrame, config: BalanceConfig) -> None:
    num_prompts = int(minibatches["num_prompts"].sum())
    if config.prompts_per_group is None and config.group_size > len(minibatches):
        log.warning(
            "--group-size %d is above the %s: they make one group",
            config.group_size, counted(len(minibatches), "minibatch", "minibatches"),
        )  # fmt: skip
    if config.prompts_per_group is not None and config.prompts_per_group > num_prompts:
        log.warning(
            "--prompts-per-group %d is above the %s: they make one smaller group",
            config.prompts_per_group, counted(num_prompts, "prompt"),
        )  # fmt: skip
    if config.stratify is not None and (config.method or config.policy == "like"):
        log.info(
            "the mix of %s is measured alone: groups of %s are not exchanged for it",
            config.stratify, f"method {config.method}" if config.method else "policy like",
        )  # fmt: skip
