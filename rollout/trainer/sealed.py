"""How is a directory of weights known to be whole?

It is written aside, flushed to disk and renamed, and its seal `seal.json` holds the sha256 of
every other file. So a directory under its name was once complete, and what happened to it since is
noticed when it is read.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from stages.tables.errors import AspError
from stages.tables.io import new_directory

SEAL = "seal.json"


@contextmanager
def sealed_directory(path: Path, facts: Mapping[str, Any]) -> Iterator[Path]:
    """Yield a folder to write into; it appears at `path`, with its seal, if the block succeeds.

    A directory that is there already is replaced. `facts` are kept in the seal.

    Raises:
        AspError: It can't be written, for want of room on the disk for instance; nothing is left.
    """
    with new_directory(str(path), True, SEAL) as folder:
        try:
            yield folder
        except SafetensorError as error:  # its way of passing on an error of the file system
            raise OSError(None, str(error)) from None
        seal = {"facts": facts, "sha256": _hashes(folder)}
        (folder / SEAL).write_text(json.dumps(seal, indent=1))


def check_seal(path: Path) -> dict[str, Any]:
    """Read every file of a sealed directory; return its facts.

    Raises:
        AspError: There is none, a file is missing, changed or not among those sealed.
    """
    try:
        seal = json.loads((path / SEAL).read_text())
        known, found = dict(seal["sha256"]), _hashes(path)
        facts: dict[str, Any] = seal["facts"]
    except (OSError, ValueError, TypeError, KeyError):
        raise AspError(f"{path}: holds no readable {SEAL}, so it was not written whole") from None
    for name in sorted(known.keys() | found.keys()):
        if known.get(name) != found.get(name):
            what = "is missing" if name not in found else "is damaged or was changed"
            raise AspError(f"{path / name}: {what}; take an earlier version, or write it again")
    return facts


def _hashes(folder: Path) -> dict[str, str]:
    hashes = {}
    for file in sorted(folder.rglob("*")):
        if file.is_file() and file != folder / SEAL:
            with file.open("rb") as content:
                digest = hashlib.file_digest(content, "sha256").hexdigest()
            hashes[file.relative_to(folder).as_posix()] = digest
    return hashes
