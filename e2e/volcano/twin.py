"""Twin: what Go's clients make of a reply, said again in Python, for tests where there is no Go. Kernel.

Go's encoding/json reads the first value of a body and ignores what follows; matches keys regardless of case; takes the
last of equal keys; leaves a field as it was at null; and reads a number into int64 only if it is written as an integer.
`make e2e-volcano` holds this against the real clients, reply by reply.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

LARGEST = 1 << 63
INTEGER = re.compile(r"-?\d+")
LONG_S = "\u017f"
"""Go takes it for an s in keys."""


class NotDecoded(Exception):
    """Go reports an error, and the client drops the reply."""


@dataclass(frozen=True)
class Number:
    """A number as it is written."""

    text: str


@dataclass(frozen=True)
class Object:
    """An object with its keys in their order, equal ones included."""

    pairs: Sequence[tuple[str, object]]


def host_priorities(body: bytes) -> list[tuple[str, int]]:
    """HostPriorityList: nodes and their scores, in order.

    Raises:
        NotDecoded: kube-scheduler drops all of it.
    """
    said = _first_value(body)
    if said is None:
        return []
    if not isinstance(said, list):
        raise NotDecoded("not a list")
    return [_host_priority(one) for one in said]


def _host_priority(said: object) -> tuple[str, int]:
    host, score = "", 0
    for key, value in _fields(said):
        if value is None:
            continue
        if key == "host":
            host = _text(value)
        elif key == "score":
            score = _int64(value)
    return host, score


def node_scores(body: bytes) -> dict[str, float]:
    """PrioritizeResponse: the score of each node, as Volcano adds it.

    Raises:
        NotDecoded: the body does not decode, has an errorMessage, or has no nodeScore: Volcano takes each for an error.
    """
    scores: dict[str, float] | None = None
    message = ""
    for key, value in _fields(_first_value(body)):
        if key == "nodescore":
            scores = None if value is None else {**(scores or {}), **_floats(value)}
        elif key == "errormessage" and value is not None:
            message = _text(value)
    if message or scores is None:
        raise NotDecoded(message)
    return scores


@dataclass(frozen=True)
class Passed:
    """What a filter's answer leaves.

    Args:
        nodes: that are left, in the reply's order.
        refused: why a node is not, by node; preemption may make room there.
        unresolvable: the same, where preemption cannot help.
    """

    nodes: Sequence[str]
    refused: Mapping[str, str]
    unresolvable: Mapping[str, str]


def filter_result(body: bytes, offered: Sequence[str], *, whole: bool = False) -> Passed:
    """ExtenderFilterResult: the nodes that are left of those offered, by name or whole.

    Raises:
        NotDecoded: the body does not decode, has an error, or names a node that was not offered: kube-scheduler goes on
            without the extender if it is ignorable, and fails the pod otherwise.
    """
    names: list[str] | None = None
    nodes: list[str] = []
    maps: dict[str, dict[str, str]] = {"failednodes": {}, "failedandunresolvablenodes": {}}
    error = ""
    for key, value in _fields(_first_value(body)):
        if key == "nodenames":
            names = None if value is None else ["" if one is None else _text(one) for one in _list(value)]
        elif key == "nodes":
            nodes = [] if value is None else _node_names(value)
        elif key in maps:
            maps[key] = {} if value is None else {**maps[key], **_texts(value)}
        elif key == "error" and value is not None:
            error = _text(value)
    if error:
        raise NotDecoded(error)
    left = nodes if whole or names is None else names
    if left is names and (strangers := set(left) - set(offered)):
        raise NotDecoded(f"not offered: {sorted(strangers)}")
    return Passed(left, maps["failednodes"], maps["failedandunresolvablenodes"])


def _node_names(said: object) -> list[str]:
    """Names of the items of a NodeList."""
    found: list[str] = []
    for key, items in _fields(said):
        if key == "items" and items is not None:
            found = [_name_of(item) for item in _list(items)]
    return found


def _name_of(said: object) -> str:
    name = ""
    for key, metadata in _fields(said):
        if key == "metadata":
            for inner, value in _fields(metadata):
                if inner == "name" and value is not None:
                    name = _text(value)
    return name


def _list(said: object) -> list[object]:
    if not isinstance(said, list):
        raise NotDecoded("not a list")
    return said


def _texts(said: object) -> dict[str, str]:
    if not isinstance(said, Object):
        raise NotDecoded("not a map")
    return {key: "" if value is None else _text(value) for key, value in said.pairs}


def _floats(said: object) -> dict[str, float]:
    if not isinstance(said, Object):
        raise NotDecoded("not a map")
    return {key: 0.0 if value is None else _float64(value) for key, value in said.pairs}


def _first_value(body: bytes) -> object:
    decoder = json.JSONDecoder(
        object_pairs_hook=Object, parse_int=Number, parse_float=Number, parse_constant=_no_number, strict=True
    )
    text = body.decode("utf-8", errors="replace").lstrip(" \t\r\n")
    try:
        value, _ = decoder.raw_decode(text)
    except ValueError as error:
        raise NotDecoded(str(error)) from error
    return value


def _no_number(text: str) -> object:
    raise ValueError(f"{text} is no number of JSON")


def _fields(said: object) -> Iterator[tuple[str, object]]:
    """Keys in lower case and their values; nothing of null."""
    if said is None:
        return
    if not isinstance(said, Object):
        raise NotDecoded("not an object")
    for key, value in said.pairs:
        yield key.replace(LONG_S, "s").lower(), value


def _text(said: object) -> str:
    if not isinstance(said, str):
        raise NotDecoded("not a text")
    return said


def _int64(said: object) -> int:
    if not isinstance(said, Number) or INTEGER.fullmatch(said.text) is None:
        raise NotDecoded("not an integer")
    if not -LARGEST <= (value := int(said.text)) < LARGEST:
        raise NotDecoded("beyond int64")
    return value


def _float64(said: object) -> float:
    if not isinstance(said, Number):
        raise NotDecoded("not a number")
    if abs(value := float(said.text)) == float("inf"):
        raise NotDecoded("beyond float64")
    return value
