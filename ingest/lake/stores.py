"""Where a lake lies, by its address: a folder, or a bucket; both can do the same. An edge."""

import re
from pathlib import Path
from urllib.parse import unquote

from ingest.lake.bucket import Bucket
from ingest.lake.folder import Folder
from ingest.lake.store import unsupported_lake

_MISREAD = re.compile(r"\\|%[0-9a-fA-F]{2}")
_SLASH_MISSING = re.compile(r"(s3a?|gs|az|file):/")
Store = Folder | Bucket
"""Holds whole, durable files of tables, and lets one writer create each log entry."""
BUCKETS = ("s3", "gs", "az")
"""Schemes of addresses that are no folders."""


def store_of(uri: str | Path) -> Store:
    """The store that an address names.

    Raises:
        IngestError: it names none.
    """
    scheme, mark, rest = str(uri).partition("://")
    if not mark and not _SLASH_MISSING.match(scheme) and scheme.strip():
        return _folder(scheme)
    if scheme == "file" and rest.startswith("/"):
        return _folder(unquote(rest))
    if set(rest) & {"@", "?", "#"}:  # keys come from variables; they would be shown with the address
        raise unsupported_lake(f"{scheme}://…", "an address has no user, query or fragment; keys come from variables")
    if scheme in BUCKETS and rest.strip("/"):
        return Bucket(f"{scheme}://{rest}".rstrip("/"))
    raise unsupported_lake(str(uri), "it names no folder and no bucket")


def _folder(path: str) -> Folder:
    if _MISREAD.search(path):
        raise unsupported_lake(path, r"libraries of Delta Lake misread \ and % before two digits in a folder's name")
    return Folder(Path(path).absolute())


def is_bucket(uri: str) -> bool:
    """Whether a store's address is that of a bucket."""
    return "://" in uri
