"""Which policy versions lie ready to be loaded?

A folder of sealed directories named by version, `00000042`, each a model directory as
transformers and vLLM load it: safetensors, config, tokenizer. One process writes and prunes,
many read.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from rollout.trainer.sealed import check_seal, sealed_directory
from stages.tables.errors import AspError


@dataclass(frozen=True)
class Snapshots:
    """The snapshots in a folder."""

    folder: Path

    def path(self, version: int) -> Path:
        """Where a version lies, or would."""
        return self.folder / f"{version:08d}"

    def versions(self) -> list[int]:
        """Those that are there, ascending, intact or not."""
        return sorted(int(path.name) for path in self._entries() if path.name.isdigit())

    def new(self, version: int) -> AbstractContextManager[Path]:
        """Yield a folder to write a version into; see `sealed_directory`."""
        return sealed_directory(self.path(version), {"version": version})

    def check(self, version: int) -> None:
        """Read all of a version.

        Raises:
            AspError: It is not there, or not as it was written.
        """
        facts = check_seal(self.path(version))
        if facts.get("version") != version:
            raise AspError(f"{self.path(version)}: holds version {facts.get('version')}")

    def prune(self, keep: int) -> None:
        """Remove all but the last `keep`."""
        assert keep > 0
        for version in self.versions()[:-keep]:
            self._remove(self.path(version))

    def _entries(self) -> Iterator[Path]:
        yield from list(self.folder.iterdir()) if self.folder.is_dir() else []

    def _remove(self, path: Path) -> None:
        """Take it from its name at once: half of a snapshot must not lie there."""
        aside = path.with_name(f".{path.name}.old.tmp")
        os.replace(path, aside)
        shutil.rmtree(aside)
