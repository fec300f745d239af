"""Shares of a node above 100 % are shown as they were measured, and explained."""

from dataclasses import replace

import pytest

from features.schema.catalog import NAMES
from tests.advisor.diagnoses import AT_US
from tests.advisor.processes import Process
from tests.advisor.ui.town import town
from tests.advisor.ui.visiting import open_house

LLC = NAMES.index("llc")


@pytest.mark.parametrize(("share", "explained"), [(2.04, True), (0.9, False)])
def test_a_share_above_the_whole_node_is_explained(process: Process, share: float, *, explained: bool) -> None:
    house = open_house(process)
    cluster = town(1, AT_US, each=4)
    use = cluster.resident_use * 0.0
    use[:, LLC] = share * cluster.node_capacity[0, LLC] / len(use)
    process.publish(replace(cluster, version=2, resident_use=use))
    process.serving.reload()
    visitor = house.visitor("http://127.0.0.1")

    node, table = visitor.get("/ui/nodes/node-00000").text, visitor.get("/ui/cluster").text

    assert f"<strong>{share:.0%}</strong>last-level cache" in node
    for page in (node, table):
        assert f"{share:.0%}" in page
        assert ("adds up its containers, each as it was last measured" in page) is explained
