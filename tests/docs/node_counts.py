"""What pages of a running server say of each node: the map, and the node's own page."""

import re
from urllib.request import urlopen

ROW = re.compile(
    r'<a data-row href="/ui/nodes/([^"]+)">.*?<td class="num">(\d+)</td>\s*<td class="num">(\d*)</td>', re.DOTALL
)


def by_map_and_page(main: str) -> list[tuple[str, tuple[int, int], tuple[int, int]]]:
    """Of each node its containers and slowed containers, as the map counts them and as its page lists them."""
    found = []
    for node, containers, victims in ROW.findall(_page(f"{main}/ui/cluster")):
        body = _page(f"{main}/ui/nodes/{node}").split('id="residents-title"')[1]
        listed = len(re.findall(r'<th scope="row">', body)), len(re.findall(r'<a data-row href="/ui/victims/', body))
        found.append((node, (int(containers), int(victims or 0)), listed))
    return found


def _page(address: str) -> str:
    return str(urlopen(address, timeout=10).read().decode())  # noqa: S310 - a server of the test
