"""What a killed training had finished: OUTPUT.journal, a folder beside the output.

It holds the states of the prompts, a file a chunk, and the checkpoint of the tuning. Each file is
written whole or not at all. The folder belongs to one set of settings; a run with other ones is
refused, not mixed in. It is deleted when the output stands.
"""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from stages.tables.errors import AspError, log

SETTINGS = "settings.json"


class Journal:
    """Named dictionaries of tensors and numbers; holds nothing where `folder` is None."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def open(self, settings: Mapping[str, Any], force: bool) -> None:
        """Create the folder, or check that it is of the same settings.

        Args:
            settings: What decides the content, by the name that a message shows.
            force: Start over where the folder is of other settings.

        Raises:
            AspError: Other settings and no `force`, or the folder cannot be written.
        """
        if self._folder is None:
            return
        wanted = json.loads(json.dumps(settings))
        try:
            held = json.loads((self._folder / SETTINGS).read_text())
        except (OSError, ValueError):
            held = None
        if held == wanted:
            log.info("%s: going on with what is there", self._folder)
            return
        if self._folder.exists():
            if not force:
                raise AspError(
                    f"{self._folder}: is of a run with other settings"
                    f"{_difference(held, wanted)}; repeat that run's flags to resume it, or give "
                    "--force (or remove the folder) to start over"
                )
            self.discard()
        try:
            self._folder.mkdir()
            (self._folder / SETTINGS).write_text(json.dumps(wanted, sort_keys=True, indent=1))
        except OSError as error:
            raise AspError(f"{self._folder}: cannot be written: {error.strerror}") from None

    def load(self, name: str) -> dict[str, Any] | None:
        """What was kept under a name; None where nothing was."""
        path = self._folder / f"{name}.pt" if self._folder else None
        if path is None or not path.exists():
            return None
        return dict(torch.load(path, map_location="cpu", weights_only=True))

    def keep(self, name: str, content: Mapping[str, Any]) -> None:
        """Keep a dictionary under a name, in place of an older one."""
        if self._folder is None:
            return
        temporary = self._folder / f"{name}.{os.getpid()}.tmp"
        try:
            torch.save(dict(content), temporary)
            os.replace(temporary, self._folder / f"{name}.pt")
        except OSError as error:
            raise AspError(f"{self._folder}: cannot be written: {error.strerror}") from None

    def discard(self) -> None:
        """Delete the folder."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def _difference(held: Any, wanted: Mapping[str, Any]) -> str:
    """`: seed 0 there, 1 now; ...`."""
    if not isinstance(held, dict):
        return ""
    names = sorted(n for n in held.keys() | wanted.keys() if held.get(n) != wanted.get(n))
    return ": " + "; ".join(
        f"{n} {str(held.get(n))[:24]} there, {str(wanted.get(n))[:24]} now" for n in names
    )
