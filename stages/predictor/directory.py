"""How is a predictor kept on disk?

A directory, written whole or not at all: `predictor.json` (format, backend, numbers, scores, where
it comes from), `arrays.safetensors`, `vocabulary.json` and `heldout.parquet`. Nothing is pickled,
so that reading one runs no code. Hashes in `predictor.json` tell a damaged file.
"""

import hashlib
import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from stages.predictor.embedded import EmbeddedPredictor, Location
from stages.predictor.features import FeatureSpace, Projection, Vocabularies
from stages.predictor.forest import Forest
from stages.predictor.observations import Domain
from stages.predictor.ridge import CensoredRidge
from stages.predictor.spread import Spread
from stages.tables.errors import AspError
from stages.tables.provenance import Provenance

FORMAT, VERSION = "asp predictor", 1
MANIFEST, ARRAYS, VOCABULARY = "predictor.json", "arrays.safetensors", "vocabulary.json"
HELDOUT = "heldout.parquet"


@dataclass(frozen=True)
class Stored:
    """What a predictor directory holds."""

    predictor: EmbeddedPredictor
    domain: Domain
    scores: dict[str, Any] | None  # None where nothing could be held out
    provenance: Provenance


def save_predictor(folder: Path, stored: Stored) -> None:
    """Write the files of a predictor into an existing folder; equal predictors, equal bytes."""
    predictor, location = stored.predictor, stored.predictor.location
    vocabulary = {
        "words": predictor.vocabularies.words.grams,
        "characters": predictor.vocabularies.characters.grams,
    }
    files = {ARRAYS: save(_arrays(location)), VOCABULARY: _json(vocabulary)}
    for name, content in files.items():
        (folder / name).write_bytes(content)
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "backend": "embedded",
        "tree_share": predictor.tree_share,
        "ridge": {
            name: getattr(location.ridge, name) for name in ("intercept", "lowest", "highest")
        },
        "spread": predictor.spread.to_dict(),
        "domain": asdict(stored.domain),
        "scores": stored.scores,
        "files": {name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
        "provenance": stored.provenance.to_dict(),
    }
    (folder / MANIFEST).write_bytes(_json(manifest))


def load_predictor(path: str) -> Stored:
    """Read a predictor directory.

    Raises:
        AspError: It is none, comes from another tool or version, or a file is missing or damaged.
    """
    folder = Path(path)
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise AspError(f"{path}: {what}; a directory made by `asp train-predictor` is needed here")
    manifest = _read_manifest(folder)
    try:
        content = {name: _read(folder / name) for name in (ARRAYS, VOCABULARY)}
        for name, data in content.items():
            if hashlib.sha256(data).hexdigest() != manifest["files"][name]:
                raise AspError(
                    f"{folder / name}: damaged, or changed since training; train the predictor anew"
                )
        array = load(content[ARRAYS])
        vocabulary = json.loads(content[VOCABULARY])
        ridge, domain = manifest["ridge"], manifest["domain"]
        location = Location(
            FeatureSpace(*(_projection(array, kind) for kind in ("words", "characters"))),
            CensoredRidge(array["ridge.weight"], **ridge),
            Forest(**{f.name: array[f"forest.{f.name}"] for f in fields(Forest)}),
        )
        return Stored(
            EmbeddedPredictor(
                Vocabularies.of(vocabulary["words"], vocabulary["characters"]),
                location,
                float(manifest["tree_share"]),
                Spread(**manifest["spread"]),
            ),
            Domain(**domain | {"temperatures": tuple(domain["temperatures"])}),
            manifest["scores"],
            Provenance.from_dict(manifest["provenance"]),
        )
    except (KeyError, TypeError, ValueError, SafetensorError) as error:
        raise AspError(
            f"{folder / MANIFEST}: not as `asp train-predictor` wrote it ({error}); "
            "train the predictor anew"
        ) from None


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    try:
        manifest = json.loads(_read(path))
    except ValueError as error:
        raise AspError(f"{path}: not JSON ({error}); train the predictor anew") from None
    found = manifest.get("format") if isinstance(manifest, dict) else None
    if found != FORMAT:
        raise AspError(
            f"{path}: not a predictor of this tool: its format is {found!r}, not {FORMAT!r}"
        )
    if manifest.get("version") != VERSION:
        raise AspError(
            f"{path}: predictor format {manifest.get('version')!r}, but this build reads "
            f"{VERSION}; train the predictor anew"
        )
    if manifest.get("backend") != "embedded":
        raise AspError(
            f"{path}: backend {manifest.get('backend')!r}, but this build reads 'embedded' only"
        )
    return dict(manifest)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise AspError(
            f"{path.parent}: not a predictor directory: {path.name} is missing; "
            "make one with `asp train-predictor`"
        ) from None
    except OSError as error:
        raise AspError(f"{path}: cannot be read: {error.strerror}") from None


def _arrays(location: Location) -> dict[str, np.ndarray]:
    arrays = {
        f"{kind}.{name}": getattr(getattr(location.features, kind), f"{name}_{axes}")
        for kind in ("words", "characters")
        for name, axes in (("weight", "g"), ("components", "gk"))
    }
    arrays |= {f"forest.{f.name}": getattr(location.forest, f.name) for f in fields(Forest)}
    arrays["ridge.weight"] = location.ridge.weight_d
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()}


def _projection(array: dict[str, np.ndarray], kind: str) -> Projection:
    return Projection(array[f"{kind}.weight"], array[f"{kind}.components"])


def _json(value: object) -> bytes:
    return (json.dumps(value, sort_keys=True, indent=1, allow_nan=False) + "\n").encode()
