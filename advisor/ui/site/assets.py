"""Assets: the files that pages refer to, each under a name that changes with its content. Read once, at start."""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable

from fastapi import APIRouter, HTTPException, Response

from advisor.api.http.roles import allowed

TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
FOR_EVER = "public, max-age=31536000, immutable"
PREFIX = "/ui/static"


@dataclass(frozen=True, slots=True)
class Asset:
    """A file, its type, and the beginning of its SHA-256."""

    content: bytes
    kind: str
    digest: str


def assets() -> dict[str, Asset]:
    """All files that browsers may have, by path."""
    return dict(_below(files("advisor.ui") / "static", ""))


def _below(folder: Traversable, prefix: str) -> list[tuple[str, Asset]]:
    found = list[tuple[str, Asset]]()
    for entry in folder.iterdir():
        name = f"{prefix}{entry.name}"
        if entry.is_dir():
            found += _below(entry, f"{name}/")
        elif kind := TYPES.get(name[name.rfind(".") :]):
            content = entry.read_bytes()
            found.append((name, Asset(content, kind, sha256(content).hexdigest()[:16])))
    return found


def address_in(known: Mapping[str, Asset], name: str) -> str:
    """Where a browser gets a file."""
    return f"{PREFIX}/{known[name].digest}/{name}"


def asset_routes(known: Mapping[str, Asset]) -> APIRouter:
    """The route of all files; who is not logged in needs them too."""
    router = APIRouter()

    @router.get(PREFIX + "/{digest}/{name:path}")
    @allowed("anyone")
    async def asset(digest: str, name: str) -> Response:
        """A file; one of another version is not there."""
        found = known.get(name)
        if found is None or found.digest != digest:
            raise HTTPException(404)
        return Response(found.content, media_type=found.kind, headers={"Cache-Control": FOR_EVER})

    return router
