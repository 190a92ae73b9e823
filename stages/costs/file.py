"""Where do the coefficients of a cost model come from: a file of them, or a profile to fit?

    {"step_seconds": 0.021, "sequence_seconds": 6e-5, "prefill_seconds": 4e-5, "kv_seconds": 1e-9}

A profile is told by its bytes: Parquet.
"""

import hashlib
import json
from dataclasses import asdict, dataclass, fields
from typing import Any

from stages.costs.fit import fit_cost_model
from stages.costs.model import CostModel
from stages.tables.derived import complete_profile
from stages.tables.errors import AspError, first_few, log, shorten
from stages.tables.io import conform, parse_parquet, read_bytes
from stages.tables.provenance import Input, Provenance
from stages.tables.schemas import Profile

NAMES = tuple(field.name for field in fields(CostModel))
LARGEST_SECONDS = 1e6  # of a coefficient; products with any length stay finite


@dataclass(frozen=True)
class Source:
    """A cost model with what is to be said of it in a footer."""

    model: CostModel
    results: dict[str, Any]
    input: Input


def read_cost_model(path: str) -> Source:
    """Read coefficients, or fit them to a profile's timings; say how well they fit.

    Raises:
        AspError: The file is neither, or a bad one.
    """
    name, data = read_bytes(path)
    digest = hashlib.sha256(data).hexdigest()
    if data[:4] != b"PAR1":
        return Source(parse_coefficients(name, data), {}, Input("cost_model", digest))
    profile = conform(parse_parquet(name, data), Profile, name, complete_profile)
    fit = fit_cost_model(profile, name)
    for warning in fit.warnings:
        log.warning(warning)
    log.info(
        "cost model of %d responses: %s; relative error on held-out prompts: median %.1f%%, "
        "90th percentile %.1f%%",
        fit.num_rows, ", ".join(f"{n} {v:.3g}" for n, v in asdict(fit.model).items()),
        100 * fit.median_error, 100 * fit.p90_error,
    )  # fmt: skip
    results = {
        "cost_model_rows": fit.num_rows,
        "cost_model_median_error": fit.median_error,
        "cost_model_p90_error": fit.p90_error,
    }
    return Source(fit.model, results, Input("cost_model", digest, Provenance.read(data)))


def parse_coefficients(name: str, data: bytes) -> CostModel:
    """The four coefficients of a JSON object, all of them and nothing else.

    Raises:
        AspError: It is something else, or a coefficient is no number from 0 to LARGEST_SECONDS.
    """
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise AspError(
            f"{name}: neither JSON nor Parquet; a cost model is an object with "
            f"{', '.join(NAMES)}, or a profile to fit it to"
        ) from None
    if not isinstance(found, dict):
        raise AspError(f"{name}: holds no JSON object; give one with {', '.join(NAMES)}")
    if unknown := [key for key in found if key not in NAMES]:
        raise AspError(
            f"{name}: key {shorten(unknown[0], 40)!r} is unknown; those of a cost model are "
            f"{', '.join(NAMES)}"
        )
    if missing := [key for key in NAMES if key not in found]:
        raise AspError(f"{name}: lacks {first_few(missing)}; give 0 for what costs nothing")
    for key, value in found.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 <= value <= LARGEST_SECONDS:
            raise AspError(
                f"{name}: {key} is {shorten(json.dumps(value), 40)}; a number of seconds from 0 to "
                f"{LARGEST_SECONDS:g} is needed"
            )
    if not (found["step_seconds"] or found["sequence_seconds"]):
        raise AspError(f"{name}: step_seconds and sequence_seconds are both 0; one must cost time")
    return CostModel(**{key: float(value) for key, value in found.items()})
