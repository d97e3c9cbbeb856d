"""Errors of checkpoints, worded for the person who has to mend one."""

from __future__ import annotations

from pathlib import Path


class CheckpointError(Exception):
    """A checkpoint is missing, damaged or of an unknown kind.

    Attributes:
        path: the file or folder at fault.
        field: the configuration key or tensor at fault, or None for the file as a whole.
    """

    def __init__(self, path: Path, reason: str, *, field: str | None = None) -> None:
        self.path = path
        self.field = field
        where = f"{path}: {field}" if field else str(path)
        super().__init__(f"{where}: {reason}")
