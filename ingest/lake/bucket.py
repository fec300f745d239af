"""A lake in a bucket of S3, GCS or Azure: durable when a PUT is answered. An edge.

Credentials come from the variables of the providers' own tools, such as AWS_ACCESS_KEY_ID.
"""

import io
import os
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow.fs import FSSpecHandler, PyFileSystem

from ingest.lake.arrow_dataset import dataset_of, ds
from ingest.lake.store import LOG, first_line, unreachable_lake, unsupported_lake

if TYPE_CHECKING:
    from obstore.store import ObjectStore, RetryConfig

RETRIES, RETRY_S = 6, 10
"""How often a request to a bucket is tried again, and seconds after which it is not; a try has 5 s to connect."""


ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
"""Variables that name another store than AWS."""


class Bucket:
    """A lake in an object store."""

    def __init__(self, uri: str) -> None:
        self.uri = uri

    @property
    def options(self) -> Mapping[str, str]:
        """As patient as the client of ours."""
        return {"max_retries": str(RETRIES), "retry_timeout": f"{RETRY_S}s"}

    @cached_property
    def objects(self) -> "ObjectStore":
        """The client."""
        from obstore.store import from_url

        refuse_endpoint(self.uri)
        patience: RetryConfig = {"max_retries": RETRIES, "retry_timeout": timedelta(seconds=RETRY_S)}
        try:
            return from_url(self.uri, retry_config=patience)
        except ValueError as error:
            raise unsupported_lake(self.uri, f"its address does not read ({first_line(error)})") from error

    def probe(self) -> None:
        """Create an object twice: the second time must fail."""
        import obstore
        from obstore.exceptions import AlreadyExistsError, BaseError

        path = f".probe-{uuid.uuid4().hex}"
        with self.reached():
            with suppress(AlreadyExistsError):  # its own first try, of which the answer was lost
                obstore.put(self.objects, path, b"", mode="create")
            try:
                obstore.put(self.objects, path, b"", mode="create")
            except AlreadyExistsError:
                return
            finally:
                with suppress(BaseError, FileNotFoundError):  # who may not delete leaves it there
                    obstore.delete(self.objects, path)
        raise unsupported_lake(self.uri, "it ignores If-None-Match: creating an object twice succeeded twice")

    def is_there(self) -> bool:
        """Whether anything lies below the address."""
        import obstore

        with self.reached():
            return any(some for some in obstore.list(self.objects, chunk_size=1))

    def address(self, name: str) -> str:
        """An address below the lake's."""
        return f"{self.uri}/{name}"

    def scratch(self) -> Path:
        """A temporary folder of this machine."""
        return Path(tempfile.mkdtemp(prefix="cohabit-"))

    def tidy(self, before: datetime) -> None:
        """Nothing: temporary folders are their machine's to remove."""

    def adopt(self, table: str, files: Sequence[tuple[Path, str]]) -> None:
        """Upload the files; an answered PUT is durable."""
        for local, path in files:
            self.upload(local, f"{table}/{path}")
            local.unlink()

    def upload(self, local: Path, name: str) -> None:
        """Put a file under a name that nothing else has, or that has the same content.

        A large one goes in parts. Where the answer to the last request is lost, the client asks again, and hears that
        there is no such upload: it is over then.
        """
        import obstore
        from obstore.exceptions import BaseError

        with self.reached():
            try:
                obstore.put(self.objects, name, local)
            except (BaseError, FileNotFoundError):
                with suppress(BaseError, FileNotFoundError):
                    if obstore.head(self.objects, name)["size"] == local.stat().st_size:
                        return
                raise

    def dataset(self, table: str, paths: Sequence[str], schema: pa.Schema | None) -> ds.Dataset:
        """Rows of objects, of which only what is needed is fetched."""
        return dataset_of([f"{table}/{path}" for path in paths], schema, PyFileSystem(_Objects(self)))

    def sizes(self, table: str) -> dict[str, int]:
        """By listing the bucket."""
        names = {name.removeprefix(f"{table}/"): size for name, size in self.listed(f"{table}/").items()}
        return {n: size for n, size in names.items() if n.endswith(".parquet") and not n.startswith(f"{LOG}/")}

    def listed(self, prefix: str) -> dict[str, int]:
        """Bytes of each object below a prefix."""
        import obstore

        with self.reached():
            listed = [one for some in obstore.list(self.objects, prefix) for one in some]
        return {str(one["path"]): int(one["size"]) for one in listed}

    def delete(self, table: str, paths: Sequence[str]) -> None:
        """All at once."""
        import obstore

        with self.reached():
            obstore.delete(self.objects, [f"{table}/{path}" for path in paths])

    def flush_log(self, table: str, versions: range, *, checkpoint: bool) -> None:
        """Nothing: what was answered is durable."""

    def mend(self, table: str) -> None:
        """Nothing: objects are whole."""

    def log_names(self, table: str) -> list[str]:
        """By listing the bucket."""
        return sorted(name.removeprefix(f"{table}/{LOG}/") for name in self.listed(f"{table}/{LOG}/"))

    def entry_is_whole(self, table: str, name: str) -> bool:  # noqa: ARG002 - as Store has it
        """Objects are."""
        return True

    @contextmanager
    def reached(self, missing: Callable[[str, Exception], Exception] = unreachable_lake) -> Iterator[None]:
        """Errors of the client as ours.

        Args:
            missing: gives the error to raise where an object, or the whole bucket, is not there.

        Raises:
            IngestError: the store does not answer, or refuses.
        """
        from obstore.exceptions import BaseError

        try:
            yield
        except FileNotFoundError as error:
            raise missing(self.uri, error) from error
        except BaseError as error:
            raise unreachable_lake(self.uri, error) from error


def refuse_endpoint(uri: str) -> None:
    """Refuse an endpoint of S3 that is no address: clients panic, or say nothing of it.

    Raises:
        IngestError: what the variable lacks.
    """
    name = next((one for one in ENDPOINTS if one in os.environ), None)
    if name is None or not uri.startswith("s3://"):
        return
    try:
        parts = urlsplit(os.environ[name])
        good = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or "@" in parts.netloc or parts.query or parts.fragment:
        raise unsupported_lake(uri, f"{name} is no address such as https://minio.example:9000, without a user's name")
    if parts.scheme == "http" and os.environ.get("AWS_ALLOW_HTTP", "").lower() not in {"true", "1"}:
        raise unsupported_lake(uri, f"{name} has no TLS: use https://, or set AWS_ALLOW_HTTP=true")


class _Objects(FSSpecHandler):  # type: ignore[misc]  # it has no types
    """A bucket as Arrow reads it."""

    def get_type_name(self) -> str:
        """How it is called."""
        return "bucket"

    def open_input_file(self, path: str) -> pa.NativeFile:
        """Open an object; unlike the method of the parent, a store that does not answer is no missing file."""
        return pa.PythonFile(_Object(self.fs, path), mode="r")


class _Object(io.RawIOBase):
    """An object as a file, of which each read is one request."""

    def __init__(self, bucket: Bucket, path: str) -> None:
        import obstore

        self.bucket, self.path, self.at = bucket, path, 0
        with bucket.reached(_missing):
            self.size = obstore.head(bucket.objects, path)["size"]

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a byte."""
        self.at = offset + (0, self.at, self.size)[whence]
        return self.at

    def tell(self) -> int:
        """The byte it is at."""
        return self.at

    def read(self, size: int = -1) -> bytes:
        """Fetch so many bytes, or all that are left."""
        import obstore

        left = max(self.size - self.at, 0)
        length = left if size < 0 else min(size, left)
        if not length:
            return b""
        with self.bucket.reached(_missing):
            content = obstore.get_range(self.bucket.objects, self.path, start=self.at, length=length)
        self.at += length
        return content.to_bytes()


def _missing(_uri: str, error: Exception) -> FileNotFoundError:
    return FileNotFoundError(first_line(error))
