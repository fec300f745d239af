"""Objects: what kustomize builds, and how it is compared with what others read or render. An edge."""

import json
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

Manifest = dict[str, Any]

HASH = r"(cohabit-settings)-[0-9a-z]{10}\b"
"""What kustomize adds to the name of the settings, so that pods are made anew when those change."""


def built(program: Path, folder: Path) -> list[Manifest]:
    """What kustomize makes of a folder."""
    done = subprocess.run([program, "build", folder], capture_output=True, text=True, check=True)
    return list(yaml.safe_load_all(re.sub(HASH, r"\1", done.stdout)))


def called(manifest: Manifest) -> str:
    """Kind and name."""
    return f"{manifest['kind']} {manifest['metadata']['name']}"


def without_namespace(manifest: Manifest) -> Manifest:
    """A manifest as it is written, where nothing has said yet in which namespace it is."""
    metadata = {key: value for key, value in manifest["metadata"].items() if key != "namespace"}
    return {**manifest, "metadata": metadata}


def differences(made: Sequence[Manifest], wanted: Sequence[Manifest]) -> Iterator[str]:
    """Manifests that are not in both, or not alike."""
    ours, theirs = ({called(one): json.dumps(one, sort_keys=True) for one in found} for found in (wanted, made))
    yield from (f"{name}: only one of both has it" for name in sorted(ours.keys() ^ theirs.keys()))
    yield from (f"{name}: they differ" for name in sorted(ours.keys() & theirs.keys()) if ours[name] != theirs[name])
