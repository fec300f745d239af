"""Check that a CycloneDX file lists every package of a lock, with the digest of every file that it may install.

Usage: python scripts/sbom_check.py LOCK SBOM
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

Pins = dict[str, frozenset[str]]
"""SHA-256 of the files of each `name==version`."""


def locked(text: str) -> Pins:
    """What a lock pins."""
    entries = re.split(r"^(?=[a-z0-9-]+==)", text, flags=re.MULTILINE)[1:]
    return {entry.split()[0]: frozenset(re.findall(r"sha256:([0-9a-f]{64})", entry)) for entry in entries}


def listed(sbom: Any) -> Pins:
    """What a CycloneDX file lists."""
    return {
        f"{one['name']}=={one['version']}": frozenset(
            digest["content"]
            for reference in one.get("externalReferences", ())
            for digest in reference.get("hashes", ())
            if digest["alg"] == "SHA-256"
        )
        for one in sbom["components"]
    }


def problems(lock: Pins, sbom: Pins) -> list[str]:
    """Packages that only one of both has, and those with other digests."""
    lacking = [f"{pin}: not in the SBOM" for pin in sorted(lock.keys() - sbom.keys())]
    extra = [f"{pin}: not in the lock" for pin in sorted(sbom.keys() - lock.keys())]
    shared = sorted(lock.keys() & sbom.keys())
    return [*lacking, *extra, *(f"{pin}: other digests" for pin in shared if lock[pin] != sbom[pin])]


def main(lock: Path, sbom: Path) -> int:
    """Print what differs, or how much is listed; 1 where something differs."""
    pins = locked(lock.read_text())
    found = problems(pins, listed(json.loads(sbom.read_text())))
    print(*found, sep="\n") if found else print(
        f"{sbom}: {len(pins)} packages, {sum(map(len, pins.values())):,} files, all of {lock}"
    )
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
