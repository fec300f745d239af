"""What a lake's store can do: hold whole, durable files of tables, and let one writer create each log entry. Facts."""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from ingest.lake.arrow_dataset import ds
from ingest.schema.errors import IngestError

LOG = "_delta_log"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_PASSWORD = re.compile(r"//[^/@\s]*@")
LINES = "cohabitLines"
"""Key of a log entry's commitInfo: how many lines the entry has. One that was cut after a line would pass as whole."""


class Store(Protocol):
    """Whole files of tables."""

    @property
    def uri(self) -> str:
        """The lake's address."""

    @property
    def options(self) -> Mapping[str, str]:
        """How the library of tables reaches it, besides its address."""

    def is_there(self) -> bool:
        """Whether a lake was ever made there."""

    def probe(self) -> None:
        """Refuse a store on which two writers can both create one file; raises IngestError."""

    def address(self, name: str) -> str:
        """The address of a table, or of another folder."""

    def scratch(self) -> Path:
        """A new local folder for files that may become part of a table."""

    def tidy(self, before: datetime) -> None:
        """Remove such folders that processes left which died before a time."""

    def adopt(self, table: str, files: Sequence[tuple[Path, str]]) -> None:
        """Give local files their paths in a table; all are durable when it returns."""

    def dataset(self, table: str, paths: Sequence[str], schema: pa.Schema | None) -> ds.Dataset:
        """Rows of files of a table; None: in the schema of the first."""

    def sizes(self, table: str) -> dict[str, int]:
        """Bytes of each Parquet file of a table that is there, whether or not it counts."""

    def delete(self, table: str, paths: Sequence[str]) -> None:
        """Delete files of a table; some may be gone already."""

    def flush_log(self, table: str, versions: range, *, checkpoint: bool) -> None:
        """Make the log entries of versions durable, and the newest checkpoint if asked."""

    def mend(self, table: str) -> None:
        """Rename what a power loss left half written at the end of a table's log; raises IngestError."""

    def log_names(self, table: str) -> list[str]:
        """Names of the files of a table's log, in order."""

    def entry_is_whole(self, table: str, name: str) -> bool:
        """Whether all lines of a log entry are there."""


def is_whole_entry(content: bytes) -> bool:
    """Whether a log entry has all the lines that it says it has, and each of them is an object."""
    try:
        lines = [json.loads(line) for line in content.splitlines()]
    except (ValueError, RecursionError):
        return False
    if not lines or not all(isinstance(line, dict) for line in lines):
        return False
    about = (line.get("commitInfo") for line in lines)
    return [one[LINES] for one in about if isinstance(one, dict) and LINES in one] in ([], [str(len(lines))])


def unsupported_lake(uri: str, reason: str) -> IngestError:
    """The lake's address names a store on which a commit may be lost."""
    return IngestError(
        f"lake {uri!r} cannot be used: {reason}; name a folder on a file system with hard links, or a bucket (s3://, "
        "gs://, az://) of a store that honours If-None-Match"
    )


def unreachable_lake(uri: str, error: Exception) -> IngestError:
    """The lake's store does not answer, or refuses its user."""
    keyless = "169.254.169.254" in str(error)  # who has no keys asks a machine of the cloud for some
    why = "no keys are set, and this machine has no identity" if keyless else first_line(error)
    return IngestError(
        f"lake {uri!r} cannot be reached ({why}): check its address, that the store runs, and what your credentials "
        "allow there, then try again"
    )


def first_line(error: Exception) -> str:
    """What an error says first, and what the system said; libraries go on for pages. Without passwords of addresses."""
    lines = _COLOUR.sub("", str(error)).strip().split("\n")
    system = next((line.strip(" ↳") for line in lines[1:] if "os error" in line), "")
    return _PASSWORD.sub("//***@", f"{lines[0]}: {system}" if system else lines[0])
