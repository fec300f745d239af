"""All targets of fuzzing.

Left out, as nobody outside writes it: the catalogues that are part of the package, the measured runs in data_samples,
and counts that workers of one server tell each other through files.
"""

from pathlib import Path

from tests.fuzzing.kept_targets import kept_targets
from tests.fuzzing.lake_targets import lake_targets
from tests.fuzzing.message_targets import message_targets
from tests.fuzzing.registry_targets import registry_targets
from tests.fuzzing.target import Target
from tests.fuzzing.written_targets import written_targets


def all_targets(folder: Path) -> dict[str, Target]:
    """Every target by name; they work in the folder."""
    made = (message_targets, written_targets, kept_targets, registry_targets, lake_targets)
    return {target.name: target for of in made for target in of(folder / of.__name__)}
