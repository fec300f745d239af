"""`make e2e-kustomize`: what the released kustomize makes of the example is what tests read, and passes their checks.

Exit 1 where the two differ, or where a check complains.
"""

import sys

from cohabit.terminal.console import console, show_error
from e2e.kube.errors import E2eError
from e2e.kustomize.binary import kustomize
from e2e.kustomize.objects import built, differences, without_namespace
from tests.deploy.checks import ALL
from tests.deploy.manifests import EXAMPLE, read


def main() -> int:
    """Compare and check; the exit code."""
    try:
        made = built(kustomize(console.print), EXAMPLE)
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
