"""Five hours of a cluster whose law says who slows whom, played once for all files here, which share a process."""

import pytest

from benchmarks.antagonists import Cast, Scene, cast_of, played
from ingest.lake.tables import Lake

HOURS = 5


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> tuple[Cast, Lake, list[Scene]]:
    cast = cast_of("queueing", 7, loud=True, per_node=4, hours=HOURS)
    return cast, *played(cast, tmp_path_factory.mktemp("stage"), 7)
