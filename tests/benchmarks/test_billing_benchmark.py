"""The benchmark of billing: what is drawn is metered and billed to the unit, the same bytes however it comes."""

from argparse import Namespace
from pathlib import Path

import numpy as np

from benchmarks.billing import billed, run
from benchmarks.billing_site import Site
from benchmarks.runner import OURS, json_line

SMALL = Namespace(containers=400, hours=30, pools=2, share=0.1)


def test_figures_are_there_and_nothing_is_lost_or_told_apart() -> None:
    found = run(SMALL, np.random.default_rng(0))

    figures = found[OURS]
    assert (figures["identical"], figures["conserved"]) == (1.0, 1.0)
    assert figures["container_hours"] == 400 * 30
    assert figures["container_hours_from_minutes"] == 40 * 30
    assert figures["lines"] > 2 * figures["container_hours"], "two resources each, gaps and what is idle"
    assert {"rows_per_s", "rss_mb", "growth_x10"} <= figures.keys()
    assert json_line(found)


def test_the_same_seed_makes_the_same_files(tmp_path: Path) -> None:
    first, again, other = (billed(Site(100, 2, 0.1), 2, tmp_path, seed).digests for seed in (1, 1, 2))

    assert len(set(first)) == 2
    assert first == again != other
