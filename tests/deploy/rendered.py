"""`make e2e-kustomize`: what the released kustomize makes of the example is what tests read, and passes their checks;
also with its lake in a bucket.

Exit 1 where the two differ, or where a check complains.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from cohabit.terminal.console import console, show_error
from e2e.kube.errors import E2eError
from e2e.kustomize.binary import kustomize
from e2e.kustomize.objects import built, differences, without_namespace
from tests.deploy.checks import ALL
from tests.deploy.manifests import EXAMPLE, bucket_example, read


def main() -> int:
    """Compare and check; the exit code."""
    try:
        program = kustomize(console.print)
    except E2eError as error:
        show_error(error)
        return 1
    with TemporaryDirectory(prefix="cohabit-e2e-kustomize-") as name:
        return max(compared(program, folder) for folder in (EXAMPLE, bucket_example(Path(name))))


def compared(program: Path, folder: Path) -> int:
    """Compare and check what kustomize makes of a folder; the exit code."""
    made = built(program, folder)
    bare = [without_namespace(manifest) for manifest in made]
    complaints = [*differences(bare, read(folder)), *(told for check in ALL for told in check(made))]
    for complaint in complaints:
        console.print(complaint, markup=False)
    console.print(f"{len(made)} manifests, {len(ALL)} checks, {len(complaints)} complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
