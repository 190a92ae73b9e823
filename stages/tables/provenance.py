"""Where a table came from: the JSON under the footer key `asp`.

It holds no clock, host, path or file name, so equal inputs give equal bytes, piped or not. Each
input carries its own provenance along, so one file tells the whole chain. Nothing is trusted
because the footer says so: every read validates.
"""

import io
import json
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import polars as pl

FOOTER_KEY = "asp"
FOOTER_VERSION = 1


def tool_version() -> str:
    """`asp 0.1.0`, as the footer names the tool."""
    try:
        return f"asp {version('asp-schedule')}"
    except PackageNotFoundError:
        return "asp (not installed)"


@dataclass(frozen=True)
class Input:
    """One input of a stage: its role there, the hash of its bytes, its own provenance."""

    role: str
    sha256: str
    provenance: "Provenance | None" = None


@dataclass(frozen=True)
class Provenance:
    """What a stage did to make a table.

    `results` is what the stage measured of its own work: scores, gaps, counts.
    """

    stage: str
    schema: str  # table name and schema version: lengths/1
    config: dict[str, Any] = field(default_factory=dict)
    seed: int | None = None
    results: dict[str, Any] = field(default_factory=dict)
    inputs: tuple[Input, ...] = ()
    tool: str = field(default_factory=tool_version)

    def to_dict(self) -> dict[str, Any]:
        """As stored, with nested provenance."""
        return {
            "version": FOOTER_VERSION,
            "stage": self.stage,
            "schema": self.schema,
            "tool": self.tool,
            "config": self.config,
            "seed": self.seed,
            "results": self.results,
            "inputs": [
                {
                    "role": item.role,
                    "sha256": item.sha256,
                    FOOTER_KEY: item.provenance.to_dict() if item.provenance else None,
                }
                for item in self.inputs
            ],
        }

    def to_json(self) -> str:
        """Keys sorted, so that equal provenance gives equal bytes."""
        return json.dumps(self.to_dict(), sort_keys=True, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Provenance":
        """Read what `to_dict` wrote; raises KeyError or TypeError on anything else."""
        return cls(
            stage=str(data["stage"]),
            schema=str(data["schema"]),
            config=dict(data["config"]),
            seed=data["seed"],
            results=dict(data.get("results") or {}),
            inputs=tuple(
                Input(
                    str(item["role"]),
                    str(item["sha256"]),
                    cls.from_dict(item[FOOTER_KEY]) if item.get(FOOTER_KEY) else None,
                )
                for item in data["inputs"]
            ),
            tool=str(data["tool"]),
        )

    @classmethod
    def read(cls, parquet: bytes) -> "Provenance | None":
        """The provenance in a Parquet file's footer; None where there is none to be read."""
        try:
            footer = pl.read_parquet_metadata(io.BytesIO(parquet)).get(FOOTER_KEY)
            found = cls.from_dict(json.loads(footer)) if footer else None
            if found:
                found.to_json().encode()  # the next stage must be able to carry it along
            return found
        except (
            pl.exceptions.PolarsError, ValueError, KeyError, TypeError, AttributeError,
            RecursionError,
        ):  # fmt: skip
            return None

    def ancestor(self, stage: str) -> "Provenance | None":
        """The provenance of the nearest input in the chain that `stage` made, itself included."""
        if self.stage == stage:
            return self
        for item in self.inputs:
            found = item.provenance.ancestor(stage) if item.provenance else None
            if found:
                return found
        return None
