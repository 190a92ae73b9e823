"""How is a predictor kept on disk?

A directory, written whole or not at all: `predictor.json` (format, backend, numbers, scores, where
it comes from), `arrays.safetensors`, `vocabulary.json` and `heldout.parquet`. Nothing is pickled,
so that reading one runs no code. Hashes in `predictor.json` tell a damaged file. A transformer
predictor adds a file of its own to those of its embedded part.
"""

import hashlib
import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from stages.predictor.embedded import EmbeddedPredictor, Location
from stages.predictor.evaluation.domains import DomainScore
from stages.predictor.evaluation.marginal import Marginal
from stages.predictor.evaluation.scores import Scores
from stages.predictor.features import FeatureSpace, Projection, Vocabularies
from stages.predictor.forest import Forest
from stages.predictor.ngrams import Vocabulary
from stages.predictor.observations import Domain
from stages.predictor.spread import Spread
from stages.predictor.wording import Wording
from stages.tables.errors import AspError
from stages.tables.provenance import Provenance

if TYPE_CHECKING:  # needs torch
    from stages.predictor.transformer.predictor import TransformerPredictor

FORMAT, VERSION = "asp predictor", 4
MANIFEST, ARRAYS, VOCABULARY = "predictor.json", "arrays.safetensors", "vocabulary.json"
HELDOUT = "heldout.parquet"
WEIGHTS = ("word_g", "character_g", "scalar_d", "domain_k")  # of the wording


@dataclass(frozen=True)
class Stored:
    """What a predictor directory holds."""

    predictor: "EmbeddedPredictor | TransformerPredictor"
    domain: Domain
    scores: Scores | None  # None where nothing could be held out
    by_domain: list[DomainScore] | None  # each left out; None: not asked for
    usual_unseen_share: float  # of a prompt's n-grams; more makes it unlike the training prompts
    marginal: Marginal | None  # what to predict in its place; None: the predictor is to be trusted
    provenance: Provenance

    @property
    def words(self) -> Vocabulary:
        """The word n-grams of the training prompts."""
        embedded = self.predictor
        if not isinstance(embedded, EmbeddedPredictor):
            embedded = embedded.embedded
        return embedded.vocabularies.words


@dataclass(frozen=True)
class Summary:
    """What a predictor directory says of itself, without the predictor."""

    backend: str
    base_model: str | None
    domain: Domain
    scores: Scores | None
    by_domain: list[DomainScore] | None
    is_trusted: bool
    files: dict[str, str]  # sha256 by name
    provenance: Provenance


def save_predictor(folder: Path, stored: Stored) -> None:
    """Write the files of a predictor into an existing folder; equal predictors, equal bytes."""
    transformer = None if isinstance(stored.predictor, EmbeddedPredictor) else stored.predictor
    predictor = transformer.embedded if transformer else stored.predictor
    assert isinstance(predictor, EmbeddedPredictor)
    location = predictor.location
    vocabulary = {
        "words": predictor.vocabularies.words.grams,
        "characters": predictor.vocabularies.characters.grams,
        "domains": predictor.vocabularies.domains,
    }
    files = {ARRAYS: save(_arrays(location)), VOCABULARY: _json(vocabulary)}
    description = None
    if transformer:
        from stages.predictor.transformer import storage

        description = storage.describe(transformer)
        files[description["file"]] = storage.content(transformer)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "backend": "transformer" if transformer else "embedded",
        "transformer": description,
        "tree_share": predictor.tree_share,
        "wording": {
            name: getattr(location.wording, name) for name in ("intercept", "lowest", "highest")
        },
        "spread": predictor.spread.to_dict(),
        "domain": asdict(stored.domain),
        "scores": stored.scores and stored.scores.to_dict(),
        "by_domain": None if stored.by_domain is None else list(map(asdict, stored.by_domain)),
        "usual_unseen_share": stored.usual_unseen_share,
        "marginal": stored.marginal and stored.marginal.to_dict(),
        "files": {name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
        "provenance": stored.provenance.to_dict(),
    }
    (folder / MANIFEST).write_bytes(_json(manifest))


def load_predictor(path: str, base_model: str | None = None) -> Stored:
    """Read a predictor directory.

    Args:
        path: The directory.
        base_model: Where the base model of a transformer predictor lies now; None: where it lay
            in training.

    Raises:
        AspError: It is none, comes from another tool or version, or a file is missing or damaged;
            or the base model is.
    """
    folder = Path(path)
    manifest = _read_manifest(folder)
    try:
        description = manifest["transformer"]
        names = (ARRAYS, VOCABULARY, *([description["file"]] if description else []))
        content = {name: _read(folder / name) for name in names}
        for name, data in content.items():
            if hashlib.sha256(data).hexdigest() != manifest["files"][name]:
                raise AspError(
                    f"{folder / name}: damaged, or changed since training; train the predictor anew"
                )
        array = load(content[ARRAYS])
        vocabulary = json.loads(content[VOCABULARY])
        wording, marginal = manifest["wording"], manifest["marginal"]
        location = Location(
            FeatureSpace(*(_projection(array, kind) for kind in ("words", "characters"))),
            Wording(**{name: array[f"wording.{name}"] for name in WEIGHTS}, **wording),
            Forest(**{f.name: array[f"forest.{f.name}"] for f in fields(Forest)}),
        )
        embedded = EmbeddedPredictor(
            Vocabularies.of(*(vocabulary[kind] for kind in ("words", "characters", "domains"))),
            location,
            float(manifest["tree_share"]),
            Spread.from_dict(manifest["spread"]),
        )
        predictor: EmbeddedPredictor | TransformerPredictor = embedded
        if description:
            from stages.predictor.transformer import storage

            predictor = storage.restore(
                description, content[description["file"]], embedded, base_model
            )
        elif base_model is not None:
            raise AspError(
                f"--base-model {base_model}: {path} is an embedded predictor, which has none; "
                "leave the flag out"
            )
        return Stored(
            predictor,
            _domain(manifest),
            manifest["scores"] and Scores.from_dict(manifest["scores"]),
            manifest["by_domain"] and [DomainScore(**score) for score in manifest["by_domain"]],
            float(manifest["usual_unseen_share"]),
            marginal and Marginal.from_dict(marginal),
            Provenance.from_dict(manifest["provenance"]),
        )
    except (KeyError, TypeError, ValueError, RuntimeError, SafetensorError) as error:
        raise _not_ours(folder, error) from None


def read_summary(path: str) -> Summary:
    """Read what a predictor directory says of itself.

    Raises:
        AspError: It is none, or comes from another tool or version.
    """
    manifest = _read_manifest(Path(path))
    try:
        description = manifest["transformer"]
        return Summary(
            manifest["backend"],
            description and description["base_model"],
            _domain(manifest),
            manifest["scores"] and Scores.from_dict(manifest["scores"]),
            manifest["by_domain"] and [DomainScore(**score) for score in manifest["by_domain"]],
            manifest["marginal"] is None,
            dict(manifest["files"]),
            Provenance.from_dict(manifest["provenance"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise _not_ours(Path(path), error) from None


def _domain(manifest: dict[str, Any]) -> Domain:
    domain = manifest["domain"]
    return Domain(**domain | {"temperatures": tuple(domain["temperatures"])})


def _not_ours(folder: Path, error: Exception) -> AspError:
    return AspError(
        f"{folder / MANIFEST}: not as `asp train-predictor` wrote it ({error}); "
        "train the predictor anew"
    )


def _read_manifest(folder: Path) -> dict[str, Any]:
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise AspError(
            f"{folder}: {what}; a directory made by `asp train-predictor` is needed here"
        )
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
    if manifest.get("backend") not in ("embedded", "transformer"):
        raise AspError(
            f"{path}: backend {manifest.get('backend')!r}, but this build reads 'embedded' and "
            "'transformer'"
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
    arrays |= {f"wording.{name}": getattr(location.wording, name) for name in WEIGHTS}
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()}


def _projection(array: dict[str, np.ndarray], kind: str) -> Projection:
    return Projection(array[f"{kind}.weight"], array[f"{kind}.components"])


def _json(value: object) -> bytes:
    return (json.dumps(value, sort_keys=True, indent=1, allow_nan=False) + "\n").encode()
