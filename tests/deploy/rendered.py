"""`make e2e-kustomize`: what the released kustomize makes of the example is what tests read, and passes their checks.

Exit 1 where the two differ, or where a check complains.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

from cohabit.terminal.console import console, show_error
from e2e.kube.errors import E2eError
from e2e.kustomize.binary import kustomize
from tests.deploy.checks import ALL
from tests.deploy.manifests import EXAMPLE, Manifest, name_of, read

HASH = r"(cohabit-settings)-[0-9a-z]{10}\b"
"""What kustomize adds to the name of the settings, so that pods are made anew when those change."""


def rendered(program: Path) -> list[Manifest]:
    """What kustomize makes of the example."""
    done = subprocess.run([program, "build", EXAMPLE], capture_output=True, text=True, check=True)
    return list(yaml.safe_load_all(re.sub(HASH, r"\1", done.stdout)))


def without_namespace(manifest: Manifest) -> Manifest:
    """A manifest as tests read it, where kustomize has not said yet in which namespace it is."""
    metadata = {key: value for key, value in manifest["metadata"].items() if key != "namespace"}
    return {**manifest, "metadata": metadata}


def differences(made: list[Manifest], told: list[Manifest]) -> Iterator[str]:
    """Manifests that are not in both, or not alike."""
    ours, theirs = ({name_of(one): json.dumps(one, sort_keys=True) for one in found} for found in (told, made))
    yield from (f"{name}: only one of both has it" for name in sorted(ours.keys() ^ theirs.keys()))
    yield from (f"{name}: they differ" for name in sorted(ours.keys() & theirs.keys()) if ours[name] != theirs[name])


def main() -> int:
    """Compare and check; the exit code."""
    try:
        made = rendered(kustomize(console.print))
    except E2eError as error:
        show_error(error)
        return 1
    bare = [without_namespace(manifest) for manifest in made]
    complaints = [*differences(bare, read(EXAMPLE)), *(told for check in ALL for told in check(made))]
    for complaint in complaints:
        console.print(complaint, markup=False)
    console.print(f"{len(made)} manifests, {len(ALL)} checks, {len(complaints)} complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
