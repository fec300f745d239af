"""A small S3 server inside a test's process: objects in memory, conditional PUTs, ranges, listings and uploads."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate, parsedate_to_datetime
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Self
from urllib.parse import parse_qsl, unquote, urlsplit
from uuid import uuid4
from xml.sax.saxutils import escape, unescape

KEY_ID, BUCKET = "key-of-tests", "bucket"


@dataclass
class S3Server:
    """One bucket: objects by `bucket/key`, requests like `GET bucket/key` that it refuses, PUTs it keeps unanswered."""

    objects: dict[str, bytes] = field(default_factory=dict)
    written: dict[str, str] = field(default_factory=dict)
    ignores_conditions: bool = False
    refused: set[str] = field(default_factory=set)
    unanswered: set[str] = field(default_factory=set)
    fetched_bytes: int = 0
    uploads: dict[str, dict[int, bytes]] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)
    port: int = 0

    @contextmanager
    def running(self) -> Iterator[Self]:
        """Answer requests of this machine."""
        with _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"s3": self})) as server:
            self.port = server.server_port
            Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
            yield self
            server.shutdown()


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # clients may hang up before they have all of an answer
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Handler(BaseHTTPRequestHandler):
    s3: S3Server
    protocol_version, wbufsize, disable_nagle_algorithm = "HTTP/1.1", -1, True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Print nothing."""

    def parse_request(self) -> bool:
        """Read a whole request; strangers, and who names another bucket, get no further."""
        if not super().parse_request():
            return False
        url = urlsplit(self.path)
        self.name, self.query = unquote(url.path)[1:], dict(parse_qsl(url.query, keep_blank_values=True))
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        known = f"Credential={KEY_ID}/" in self.headers.get("Authorization", "")
        allowed = known and f"{self.command} {self.name}" not in self.s3.refused
        if allowed and self.name.partition("/")[0] == BUCKET:
            return True
        self.answer(*((404, b"<Error><Code>NoSuchBucket</Code></Error>") if allowed else (403, b"<Error/>")))
        self.wfile.flush()
        return False

    def answer(self, status: int, content: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for header, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(header.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.s3.fetched_bytes += self.wfile.write(content)

    def keep(self, content: bytes) -> None:
        with self.s3.lock:
            if "If-None-Match" in self.headers and self.name in self.s3.objects and not self.s3.ignores_conditions:
                self.answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
                return
            self.s3.objects[self.name], self.s3.written[self.name] = content, formatdate(usegmt=True)
        self.close_connection = self.name in self.s3.unanswered
        self.s3.unanswered.discard(self.name)
        if not self.close_connection:
            self.answer(200, f"<R><ETag>{_tag(content)}</ETag></R>".encode(), ETag=_tag(content))

    def do_PUT(self) -> None:
        if upload := self.query.get("uploadId"):
            self.s3.uploads[upload][int(self.query["partNumber"])] = self.body
            self.answer(200, ETag=_tag(self.body))
        else:
            self.keep(self.body)

    def do_POST(self) -> None:
        if "delete" in self.query:
            for key in re.findall("<Key>(.*?)</Key>", self.body.decode()):
                self.s3.objects.pop(f"{BUCKET}/{unescape(key)}", None)
            self.answer(200, self.body.replace(b"Object>", b"Deleted>"))
        elif "uploads" in self.query:
            self.s3.uploads[upload := uuid4().hex] = {}
            self.answer(200, f"<R><UploadId>{upload}</UploadId></R>".encode())
        else:
            parts = self.s3.uploads.pop(self.query["uploadId"], None)
            if parts is None:
                self.answer(404, b"<Error><Code>NoSuchUpload</Code></Error>")
            else:
                self.keep(b"".join(parts[number] for number in sorted(parts)))

    def do_DELETE(self) -> None:
        if upload := self.query.get("uploadId"):
            self.answer(204 if self.s3.uploads.pop(upload, None) is not None else 404)
        else:
            self.s3.objects.pop(self.name, None)
            self.answer(204)

    def do_GET(self) -> None:
        content, written = self.s3.objects.get(self.name), self.s3.written.get(self.name, "")
        if "list-type" in self.query:
            self.answer(200, _listing(self.s3, self.query).encode())
        elif content is None:
            self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        elif asked := re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", "")):
            first = int(asked[1]) if asked[1] else max(len(content) - int(asked[2]), 0)
            part = content[first : int(asked[2]) + 1 if asked[1] and asked[2] else None]
            span = f"bytes {first}-{first + len(part) - 1}/{len(content)}"
            self.answer(206, part, Content_Range=span, ETag=_tag(content), Last_Modified=written)
        else:
            self.answer(200, content, ETag=_tag(content), Last_Modified=written)

    do_HEAD = do_GET  # noqa: N815


def _tag(content: bytes) -> str:
    return f'"{sha256(content).hexdigest()[:32]}"'


def _listing(s3: S3Server, query: dict[str, str]) -> str:
    """ListObjectsV2; a token is the last name of the page before."""
    prefix, after = query.get("prefix", ""), query.get("continuation-token") or query.get("start-after", "")
    entries: dict[str, str] = {}
    for name, content in sorted(s3.objects.copy().items()):
        head, mark, _ = name.removeprefix(f"{BUCKET}/{prefix}").partition(query.get("delimiter") or "\0")
        shown, written = prefix + head + mark, f"{parsedate_to_datetime(s3.written[name]):%Y-%m-%dT%H:%M:%S.000Z}"
        about = f"<Size>{len(content)}</Size><ETag>{_tag(content)}</ETag><LastModified>{written}</LastModified>"
        file = f"<Contents><Key>{escape(shown)}</Key>{about}</Contents>"
        if name.startswith(f"{BUCKET}/{prefix}") and shown > after:
            entries[shown] = f"<CommonPrefixes><Prefix>{escape(shown)}</Prefix></CommonPrefixes>" if mark else file
    page = list(entries)[: int(query.get("max-keys", 1000))]
    token = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if len(page) < len(entries) else ""
    listed = "".join(entries[name] for name in page)
    return f"<L><IsTruncated>{str(bool(token)).lower()}</IsTruncated>{token}{listed}</L>"
