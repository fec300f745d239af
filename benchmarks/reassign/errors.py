"""Errors of public problems' files."""

from pathlib import Path


class UnusableFile(Exception):
    """A file is not of its format, or breaks a rule."""

    def __init__(self, path: Path, line: int | None, reason: str) -> None:
        self.path, self.line, self.reason = path, line, reason
        super().__init__(f"{path}{'' if line is None else f', line {line}'}: {reason}")
