"""Copies of a bucket: out of it for a backup, and back. An edge."""

from collections.abc import Callable
from pathlib import Path

from ingest.lake.bucket import Bucket
from ingest.lake.store import LOG

Progress = Callable[[int, int], None]
"""Called with bytes done and bytes in all."""


def pull(bucket: Bucket, target: Path, progress: Progress) -> None:
    """Copy every object into a local folder: logs first, then what they name.

    Raises:
        FileNotFoundError: one was deleted meanwhile.
        IngestError: the bucket does not answer.
    """
    import obstore

    objects, done = bucket.listed(""), 0
    for name in sorted(objects, key=lambda one: (f"/{LOG}/" not in one, one)):
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with bucket.reached(lambda _uri, error: FileNotFoundError(str(error))), path.open("xb") as file:
            for chunk in obstore.get(bucket.objects, name):
                file.write(chunk)
        done += objects[name]
        progress(done, sum(objects.values()))


def push(bucket: Bucket, source: Path, progress: Progress) -> None:
    """Copy a local folder into a bucket: logs last, in the order of their versions.

    Raises:
        IngestError: the bucket does not answer.
    """
    paths = [path for path in source.rglob("*") if path.is_file()]
    done, total = 0, sum(path.stat().st_size for path in paths)
    for path in sorted(paths, key=lambda one: (one.parent.name == LOG, one.as_posix())):
        bucket.upload(path, path.relative_to(source).as_posix())
        done += path.stat().st_size
        progress(done, total)
