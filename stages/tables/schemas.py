"""Every table of the toolchain, in data order, one class each.

Column metadata: `unit`; `optional` (a reader fills the column with nulls where it is absent);
`derived` (a stage computes the column where it is absent, so a table written by hand can do
without). The name of a rule holds the names of its columns, which messages show. Columns that no
schema names pass through every stage that keeps their rows.
"""

from typing import Any

import dataframely as dy
import polars as pl

IS_HEAD = pl.col("kind").cast(pl.String) == "head"  # of the rows of minibatches, else tails


def _optional(unit: str) -> dict[str, Any]:
    return {"unit": unit, "optional": True}


def _derived(unit: str) -> dict[str, Any]:
    return {"unit": unit, "derived": True}


class Prompts(dy.Schema):
    """The user's prompts in canonical form, read from any Parquet or JSONL: a row a prompt."""

    prompt_id = dy.Int64(primary_key=True, min=0, description="row of the prompt file, from 0")
    prompt_hash = dy.String(
        description="hash of the canonical text: 16 hexadecimal digits of sha256"
    )
    prompt = dy.String(
        min_length=1, description="canonical text: the text itself, or `role: content` lines"
    )
    domain = dy.String(
        nullable=True, metadata=_optional("name"), description="kind of task, where known"
    )


class Profile(dy.Schema):
    """What the target model answered: a row a sampled response."""

    prompt_id = dy.Int64(min=0, description="row of the prompt file, counted from 0")
    prompt_hash = dy.String(
        primary_key=True, description="hash of the canonical text: 16 hexadecimal digits of sha256"
    )
    prompt = dy.String(description="canonical text: the text itself, or `role: content` lines")
    domain = dy.String(
        nullable=True, metadata=_optional("name"), description="kind of task, where known"
    )
    model = dy.String(primary_key=True, description="name of the model that answered")
    sample_index = dy.Int64(
        primary_key=True, min=0, description="which of the prompt's responses, from 0"
    )
    prompt_tokens = dy.Int64(
        nullable=True, min=0, metadata=_optional("tokens"), description="length of the prompt"
    )
    response_tokens = dy.Int64(
        min=0,
        metadata={"unit": "tokens"},
        description="all generated tokens, of every turn of an episode; tool output not counted",
    )
    tokens_from = dy.Enum(
        ["count", "text"],
        nullable=True,
        metadata=_optional("name"),
        description=(
            "response_tokens as the engine or log counted them; or from the text, tokenised "
            "again, which can be off by a few"
        ),
    )
    finish_reason = dy.Enum(
        ["stop", "length", "abort"],
        description="why it ended: by itself, at the cap, or cut off from outside",
    )
    max_response_tokens = dy.Int64(
        nullable=True, min=1, metadata=_optional("tokens"), description="the cap in force"
    )
    temperature = dy.Float64(
        nullable=True, min=0, metadata=_optional("1"), description="sampling temperature"
    )
    policy_version = dy.Int64(
        min=0,
        metadata={"unit": "training steps", "derived": True},
        description="policy version that answered; 0 before training",
    )
    latency_s = dy.Float64(
        nullable=True, min=0, metadata=_optional("s"), description="request to last token"
    )
    ttft_s = dy.Float64(
        nullable=True, min=0, metadata=_optional("s"), description="request to first token"
    )
    concurrency = dy.Int64(
        nullable=True,
        min=1,
        metadata=_optional("requests"),
        description="requests decoded together with this one",
    )


class Heldout(dy.Schema):
    """Prediction beside observation: a row a prompt that its model had not seen in training."""

    prompt_id = dy.Int64(min=0, description="row of the prompt file, counted from 0")
    prompt_hash = dy.String(primary_key=True, description="hash of the canonical text")
    fold = dy.Int64(min=0, description="fold in which the prompt was held out")
    mu = dy.Float64(metadata={"unit": "log tokens"}, description="predicted location")
    sigma = dy.Float64(min=0, metadata={"unit": "log tokens"}, description="predicted spread")
    sample_sigma = dy.Float64(
        nullable=True,
        min=0,
        metadata=_optional("log tokens"),
        description="share of the spread that is chance between samples of one prompt",
    )
    nu_below = dy.Float64(
        nullable=True,
        min=1,
        metadata=_optional("1"),
        description="degrees of freedom of the log length below its median; null: normal",
    )
    nu_above = dy.Float64(
        nullable=True,
        min=1,
        metadata=_optional("1"),
        description="the same above its median: 2 is a very heavy tail; null: normal",
    )
    cap = dy.Int64(min=1, metadata={"unit": "tokens"}, description="the cap in force")
    num_samples = dy.Int64(min=1, description="responses observed")
    num_capped = dy.Int64(min=0, description="responses that ended at the cap")
    observed_mean = dy.Float64(
        min=0, metadata={"unit": "tokens"}, description="mean length of the responses"
    )
    observed_longest = dy.Int64(
        min=0, metadata={"unit": "tokens"}, description="longest of the responses"
    )
    expected_tokens = dy.Float64(
        min=0, metadata={"unit": "tokens"}, description="predicted mean length"
    )
    expected_longest = dy.Float64(
        min=0, metadata={"unit": "tokens"}, description="predicted longest of num_samples"
    )


class Lengths(dy.Schema):
    """How long each prompt's responses will be: a row a prompt, a distribution each.

    A response has min(exp(X), cap) tokens. X is normal with mean mu and deviation sigma, or, where
    nu is given, mu + sigma x Student's t with nu degrees of freedom, on that side of mu.
    """

    prompt_id = dy.Int64(
        primary_key=True, min=0, description="row of the prompt file, counted from 0"
    )
    prompt_hash = dy.String(
        nullable=True, metadata=_optional("hash"), description="hash of the canonical text"
    )
    prompt_tokens = dy.Int64(
        nullable=True, min=0, metadata=_optional("tokens"), description="length of the prompt"
    )
    domain = dy.String(nullable=True, metadata=_optional("name"), description="kind of task")
    mu = dy.Float64(metadata={"unit": "log tokens"}, description="median of the log length")
    sigma = dy.Float64(
        min=0,
        metadata={"unit": "log tokens"},
        description=(
            "scale of the log length of one response, prediction error included; its deviation "
            "where it is normal"
        ),
    )
    sample_sigma = dy.Float64(
        nullable=True,
        min=0,
        metadata=_optional("log tokens"),
        description=(
            "the part of sigma that is chance between the samples of one prompt; the rest, "
            "sqrt(sigma^2 - sample_sigma^2), is shared by them. null: all of it is chance"
        ),
    )
    nu_below = dy.Float64(
        nullable=True,
        min=1,
        metadata=_optional("1"),
        description="degrees of freedom of the log length below its median; null: normal",
    )
    nu_above = dy.Float64(
        nullable=True,
        min=1,
        metadata=_optional("1"),
        description="the same above its median: 2 is a very heavy tail; null: normal",
    )
    cap = dy.Int64(min=1, metadata={"unit": "tokens"}, description="longest response allowed")
    expected_tokens = dy.Float64(
        min=0, metadata=_derived("tokens"), description="expected length of a response"
    )
    p50 = dy.Float64(min=0, metadata=_derived("tokens"), description="median length")
    p90 = dy.Float64(min=0, metadata=_derived("tokens"), description="90th percentile of length")
    p_cap = dy.Float64(
        min=0, max=1, metadata=_derived("1"), description="chance that a response meets the cap"
    )
    samples_per_prompt = dy.Int64(
        min=1, metadata=_derived("samples"), description="responses per prompt in training"
    )
    expected_longest = dy.Float64(
        min=0,
        metadata=_derived("tokens"),
        description="expected longest of samples_per_prompt responses",
    )
    source = dy.Enum(
        ["predicted", "observed", "blended"],
        metadata=_derived("name"),
        description="where the distribution comes from",
    )

    @dy.rule()
    def sample_sigma_within_sigma(cls) -> pl.Expr:
        """The chance between samples is a part of the whole spread."""
        return pl.col("sample_sigma") <= pl.col("sigma") * (1 + 1e-9)

    @dy.rule()
    def expected_tokens_within_cap(cls) -> pl.Expr:
        """No response is longer than the cap, so none is expected to be."""
        return pl.col("expected_tokens") <= pl.col("cap") * (1 + 1e-9)

    @dy.rule()
    def expected_longest_within_cap(cls) -> pl.Expr:
        """Nor is the longest of several."""
        return pl.col("expected_longest") <= pl.col("cap") * (1 + 1e-9)


class Minibatches(dy.Schema):
    """Prompts that an actor generates together: a row a minibatch."""

    minibatch_id = dy.Int64(primary_key=True, min=0, description="number of the minibatch")
    kind = dy.Enum(
        ["head", "tail"],
        metadata=_derived("name"),
        description="head: these prompts; tail: places reserved for responses cut at a budget",
    )
    round = dy.Int64(min=0, metadata=_derived("1"), description="0 for a head, else the tail round")
    prompt_ids = dy.List(dy.Int64(min=0), description="the prompts, in ascending predicted length")
    prompt_hashes = dy.List(
        dy.String(nullable=True),
        nullable=True,
        metadata=_optional("hash"),
        description="hashes of the canonical texts, in the order of prompt_ids",
    )
    num_prompts = dy.Int64(
        min=0, metadata=_derived("prompts"), description="prompts, or expected ones for a tail"
    )
    num_samples = dy.Int64(
        min=0, metadata={"unit": "samples"}, description="responses: prompts x samples a prompt"
    )
    predicted_tokens = dy.Float64(
        min=0,
        metadata={"unit": "tokens"},
        description="expected tokens of all its responses; for a tail, of what it generates",
    )
    predicted_longest = dy.Float64(
        min=0,
        metadata={"unit": "tokens"},
        description="expected tokens until its longest response ends or meets the budget",
    )
    predicted_seconds = dy.Float64(
        min=0, metadata={"unit": "s"}, description="expected time on a static engine"
    )
    predicted_utilization = dy.Float64(
        min=0,
        max=1 + 1e-9,
        metadata={"unit": "1"},
        description="tokens generated in it / (num_samples x predicted_longest)",
    )
    token_budget = dy.Int64(
        nullable=True,
        min=1,
        metadata=_optional("tokens"),
        description="response tokens after which a sample is cut and carried; null: none",
    )

    @dy.rule()
    def num_prompts_counts_prompt_ids(cls) -> pl.Expr:
        """A head holds as many prompts as it says; a tail holds none before training."""
        held = pl.col("prompt_ids").list.len().cast(pl.Int64)
        return (
            pl.when(IS_HEAD).then((held == pl.col("num_prompts")) & (held > 0)).otherwise(held == 0)
        )

    @dy.rule()
    def prompt_hashes_match_prompt_ids(cls) -> pl.Expr:
        """One hash a prompt, in the same order."""
        return pl.col("prompt_hashes").list.len() == pl.col("prompt_ids").list.len()

    @dy.rule()
    def prompt_ids_stand_once(cls) -> pl.Expr:
        """No prompt stands in two minibatches of an epoch, or twice in one."""
        return pl.struct("prompt_ids").map_batches(_is_free_of_repeats, return_dtype=pl.Boolean)


class Groups(Minibatches):
    """Minibatches in dispatch order, cut into batch groups: a row a minibatch and epoch."""

    minibatch_id = dy.Int64(primary_key=True, min=0, description="number of the minibatch")
    epoch = dy.Int64(
        primary_key=True, min=0, metadata=_derived("1"), description="pass over the prompts, from 0"
    )
    group_id = dy.Int64(min=0, description="batch group, numbered in dispatch order")
    position = dy.Int64(min=0, description="place in the dispatch order of the epoch, from 0")
    instance = dy.Int64(
        nullable=True,
        min=0,
        metadata=_optional("1"),
        description="instance that generates it; null: any",
    )

    @dy.rule()
    def prompt_ids_stand_once(cls) -> pl.Expr:
        """No prompt stands in two minibatches of an epoch, or twice in one."""
        return pl.struct("prompt_ids", "epoch").map_batches(
            _is_free_of_repeats, return_dtype=pl.Boolean
        )

    @dy.rule()
    def position_stands_once_an_epoch(cls) -> pl.Expr:
        """Two minibatches of an epoch don't share a place in the dispatch order."""
        return pl.struct("epoch", "position").is_unique()

    @dy.rule()
    def group_id_follows_position(cls) -> pl.Expr:
        """Along the positions of an epoch the group number never falls."""
        rank = pl.col("position").rank("ordinal").over("epoch")
        return rank == pl.struct("group_id", "position").rank("ordinal").over("epoch")


class Schedule(Groups):
    """What a trainer consumes: the groups, plus the settings in the footer."""


def _is_free_of_repeats(rows: pl.Series) -> pl.Series:
    """For each row: does every prompt of it occur once among the rows of its epoch?"""
    frame = rows.struct.unnest().with_row_index("row")
    keys = [name for name in ("epoch", "prompt_ids") if name in frame.columns]
    exploded = frame.explode("prompt_ids", empty_as_null=False).with_columns(
        is_repeated=pl.struct(keys).is_duplicated()
    )
    repeated = exploded.filter("is_repeated").get_column("row")
    return ~frame.get_column("row").is_in(repeated.implode())


class Trace(dy.Schema):
    """What happened, in a simulator or a trainer: a row an event."""

    time_s = dy.Float64(min=0, metadata={"unit": "s"}, description="since the start of the run")
    event = dy.String(description="what happened")
    unit = dy.String(description="where: CU, TU, GU0, GU1, ...")
    actor = dy.Int64(nullable=True, min=0, metadata=_optional("1"), description="actor of the unit")
    epoch = dy.Int64(
        nullable=True, min=0, metadata=_optional("1"), description="pass over the prompts"
    )
    minibatch_id = dy.Int64(
        nullable=True, min=0, metadata=_optional("1"), description="minibatch concerned"
    )
    group_id = dy.Int64(
        nullable=True, min=0, metadata=_optional("1"), description="batch group concerned"
    )
    num_active = dy.Int64(
        nullable=True, min=0, metadata=_optional("samples"), description="responses being decoded"
    )
    queue_size = dy.Int64(
        nullable=True, min=0, metadata=_optional("samples"), description="Training Queue occupancy"
    )
    policy_version = dy.Int64(
        nullable=True,
        min=0,
        metadata=_optional("training steps"),
        description="policy version there",
    )
    lag = dy.Int64(
        nullable=True,
        min=0,
        metadata=_optional("training steps"),
        description="policy lag of the samples",
    )


class Plans(dy.Schema):
    """Settings that were tried on a cluster, the fastest first: a row a setting."""

    actors = dy.Int64(primary_key=True, min=1, description="actors that generate")
    training_devices = dy.Int64(
        primary_key=True, min=1, metadata={"unit": "devices"}, description="devices that train"
    )
    batch_size = dy.Int64(
        primary_key=True,
        min=1,
        metadata={"unit": "prompts"},
        description="base size of a minibatch",
    )
    slack = dy.Float64(
        primary_key=True, min=0, max=1, description="sizes float within batch size x (1 +- slack)"
    )
    prompts_per_group = dy.Int64(
        primary_key=True, min=1, metadata={"unit": "prompts"}, description="of a training step"
    )
    policy = dy.Enum(
        ["balanced", "like", "isolate"], primary_key=True, description="how groups are dealt"
    )
    max_rounds = dy.Int64(
        primary_key=True, min=0, description="tail rounds at most; 0: no token budgets"
    )
    max_lag = dy.Int64(
        primary_key=True,
        min=0,
        metadata={"unit": "training steps"},
        description="bound of the lag",
    )
    is_plain = dy.Bool(description="the cluster file's split and lag bound, the stages' defaults")
    is_best = dy.Bool(description="the fastest found")
    is_knee = dy.Bool(description="the cheapest within the tolerance of the fastest")
    num_seeds = dy.Int64(min=1, description="draws of true lengths that the row is of")
    iteration_seconds = dy.Float64(
        min=0, metadata={"unit": "s"}, description="mean time of one step's prompts"
    )
    gain = dy.Float64(min=0, description="time of the plain setting over this one's, same draws")
    gain_low = dy.Float64(
        nullable=True, min=0, description="lower end of its 95% interval; null: one draw"
    )
    gain_high = dy.Float64(nullable=True, min=0, description="upper end")
    tokens_per_device_second = dy.Float64(
        min=0, metadata={"unit": "tokens/s"}, description="response tokens trained on"
    )
    mean_lag = dy.Float64(
        min=0, metadata={"unit": "training steps"}, description="policy lag over samples"
    )
    largest_lag = dy.Int64(
        min=0, metadata={"unit": "training steps"}, description="largest lag of a sample group"
    )
    queue_mean = dy.Float64(
        min=0, metadata={"unit": "samples"}, description="mean occupancy of the Training Queue"
    )
    idle_training = dy.Float64(
        min=0, max=1, description="share of training's device time without a complete step"
    )
    idle_generation = dy.Float64(
        min=0, max=1, description="share of generation's device time without work"
    )
    useful = dy.Float64(
        min=0, max=1, description="share of all device time, as are the next: docs/control.md"
    )
    padding = dy.Float64(min=0, max=1, description="slots held by ended responses")
    skew = dy.Float64(min=0, max=1, description="empty slots of an actor that decodes")
    sorting = dy.Float64(min=0, max=1, description="no work, or no complete step")
    reload = dy.Float64(min=0, max=1, description="exporting and loading weights")
    switching = dy.Float64(min=0, max=1, description="between generation and training")
    carry = dy.Float64(min=0, max=1, description="prefilling again what was cut or put down")
    lost = dy.Float64(min=0, max=1, description="decoding thrown away")

    @dy.rule()
    def is_knee_once(cls) -> pl.Expr:
        """One setting is the knee."""
        return pl.col("is_knee").sum() == 1

    @dy.rule()
    def gain_within_interval(cls) -> pl.Expr:
        """The gain lies in its interval."""
        return pl.col("gain").is_between(pl.col("gain_low"), pl.col("gain_high"))


class Metrics(dy.Schema):
    """What each training step did: a row a step with samples.

    What the Training Unit measured follows in columns of its own.
    """

    step = dy.Int64(primary_key=True, min=0, description="training step, from 0")
    group_id = dy.Int64(min=0, description="batch group that it consumed")
    start_s = dy.Float64(
        min=0, metadata={"unit": "s"}, description="when it began, since the start of the run"
    )
    end_s = dy.Float64(min=0, metadata={"unit": "s"}, description="when it was over")
    groups = dy.Int64(min=1, description="sample groups")
    samples = dy.Int64(min=1, metadata={"unit": "samples"}, description="their responses")
    tokens = dy.Int64(min=0, metadata={"unit": "tokens"}, description="of the responses")
    mean_lag = dy.Float64(
        min=0, metadata={"unit": "training steps"}, description="policy lag, over samples"
    )
    max_lag = dy.Int64(min=0, metadata={"unit": "training steps"}, description="largest policy lag")


class Verified(dy.Schema):
    """What a trainer's log says of a schedule: a row a logged step."""

    step = dy.Int64(primary_key=True, min=0, description="training step, as the log numbers it")
    batch = dy.Int64(min=0, description="planned batch that it should be, from 0")
    num_planned = dy.Int64(
        min=0, metadata={"unit": "prompts"}, description="different prompts planned for it"
    )
    num_kept = dy.Int64(min=0, metadata={"unit": "prompts"}, description="of these, trained on")
    num_other = dy.Int64(
        min=0, metadata={"unit": "prompts"}, description="trained on, but not planned for it"
    )
    num_lacking = dy.Int64(
        min=0, metadata={"unit": "samples"}, description="responses too few, of kept prompts"
    )
    num_extra = dy.Int64(min=0, metadata={"unit": "samples"}, description="responses too many")
    predicted_tokens = dy.Float64(
        nullable=True,
        min=0,
        metadata=_optional("tokens"),
        description="predicted for those planned minibatches whose prompts were all trained on",
    )
    planned_tokens = dy.Float64(
        nullable=True, min=0, metadata=_optional("tokens"), description="logged for the same ones"
    )  # fmt: skip


IS_AS_PLANNED = pl.all_horizontal(pl.col("num_other", "num_lacking", "num_extra") == 0) & (
    pl.col("num_kept") == pl.col("num_planned")
)
"""Steps of a Verified table that trained on what was planned for them, and on nothing else."""


TABLES: dict[str, type[dy.Schema]] = {
    "prompts": Prompts,
    "profile": Profile,
    "heldout": Heldout,
    "lengths": Lengths,
    "minibatches": Minibatches,
    "groups": Groups,
    "schedule": Schedule,
    "trace": Trace,
    "plans": Plans,
    "metrics": Metrics,
    "verified": Verified,
}
"""Every table by the name that its footer and the messages use."""


def table_name(schema: type[dy.Schema]) -> str:
    """The name under which a schema stands in TABLES."""
    return schema.__name__.lower()


def is_marked(schema: type[dy.Schema], column: str, mark: str) -> bool:
    """Whether a column's metadata carries `optional` or `derived`."""
    return bool((schema.columns()[column].metadata or {}).get(mark))
