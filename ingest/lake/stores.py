"""Where a lake lies, by its address: a folder, or a bucket. An edge."""

from pathlib import Path

from ingest.lake.bucket import Bucket
from ingest.lake.folder import Folder
from ingest.lake.store import unsupported_lake

BUCKETS = ("s3", "gs", "az")
"""Schemes of addresses that are no folders."""


def store_of(uri: str) -> "Folder | Bucket":
    """The store that an address names.

    Raises:
        IngestError: it names none.
    """
    scheme, mark, rest = uri.partition("://")
    if not mark:
        return Folder(Path(uri).absolute())
    if scheme == "file" and rest.startswith("/"):
        return Folder(Path(rest))
    if scheme in BUCKETS and rest.strip("/"):
        return Bucket(uri.rstrip("/"))
    raise unsupported_lake(uri, "it names no folder and no bucket")


def is_bucket(uri: str) -> bool:
    """Whether a store's address is that of a bucket."""
    return "://" in uri
