"""Mutations: bytes, numbers, texts and structure of a good input changed, as a broken sender or disk would."""

import json
import random
import re
from collections.abc import Callable, Iterator

STRANGE: tuple[object, ...] = (
    *(None, True, -1, 0, 1e300, -1e300, 2**63, 10**400, "", "NaN", "+Inf", "x", "\ud800", [], {}, [[]], {"": None}),
    *("1970-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2026-03-01T11:59:55Z", 1772366395, "/", "POD", "²"),
)
Mutate = Callable[[bytes, random.Random], bytes]


def flip(message: bytes, rng: random.Random) -> bytes:
    """Some bytes become others."""
    changed = bytearray(message)
    for _ in range(rng.randint(1, 4)):
        if changed:
            changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def cut(message: bytes, rng: random.Random) -> bytes:
    """A stretch is missing."""
    start, end = sorted((rng.randint(0, len(message)), rng.randint(0, len(message))))
    return message[:start] + message[end:]


def double(message: bytes, rng: random.Random) -> bytes:
    """A stretch is there twice."""
    start, end = sorted((rng.randint(0, len(message)), rng.randint(0, len(message))))
    return message[:end] + message[start:]


def digits(message: bytes, rng: random.Random) -> bytes:
    """Digits become others, so that numbers and times do."""
    changed = bytearray(message)
    places = [at for at, byte in enumerate(changed) if 48 <= byte <= 57]
    for at in rng.sample(places, min(len(places), 5)):
        changed[at] = rng.choice(b"0123456789-.eE")
    return bytes(changed)


def structure(message: bytes, rng: random.Random) -> bytes:
    """A value anywhere in JSON becomes a strange one."""
    try:
        record = json.loads(message)
    except ValueError:
        return digits(message, rng)
    places = list(_places(record))
    for parent, key in rng.sample(places, min(len(places), rng.randint(1, 3))):
        parent[key] = rng.choice(STRANGE)  # type: ignore[index]
    return json.dumps(record, separators=(",", ":")).encode()


def _places(value: object) -> Iterator[tuple[object, object]]:
    for key, below in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield value, key
        yield from _places(below)


MUTATIONS: tuple[Mutate, ...] = (flip, cut, double, digits, structure)


_WORD = re.compile(rb"[^\s,;:=|/\"'\[\]{}<>]+")
STRANGE_WORDS = (
    *(b"", b"-1", b"0", b"1e999", b"-0.0", b"9" * 25, b"9" * 5000, b"0x7fffffffffffffff", b"NaN", b"-inf", b"True"),
    *(b"0001-01-01T00:00:00+14:00", b"9999-12-31T23:59:59-14:00", b"2026-13-45", b"1e-9999", b"1_000", b"null"),
    *(
        b"\x00",
        b"\xff\xfe",
        "\u0663\u00b2".encode(),
        b"../../x",
        b"%",
        b"~",
        b"*a",
        b"&a [*a]",
        b"!!float x",
        b"a" * 300,
    ),
)


def words(message: bytes, rng: random.Random) -> bytes:
    """Words of a text become strange ones, or others of the same text."""
    for _ in range(rng.randint(1, 3)):
        places = list(_WORD.finditer(message))
        if not places:
            break
        at = rng.choice(places)
        other = rng.choice(STRANGE_WORDS) if rng.random() < 0.6 else rng.choice(places)[0]
        message = message[: at.start()] + other + message[at.end() :]
    return message


def lines(message: bytes, rng: random.Random) -> bytes:
    """A line is missing, there twice, or elsewhere."""
    found = message.splitlines(keepends=True)
    taken = found.pop(rng.randrange(len(found))) if found else b""
    for _ in range(rng.randint(0, 2)):
        found.insert(rng.randint(0, len(found)), taken)
    return b"".join(found)


def nest(message: bytes, rng: random.Random) -> bytes:
    """Brackets upon brackets somewhere, or in the place of a word."""
    open_, close = rng.choice(((b"[", b"]"), (b'{"a":', b"}"), (b"{a: ", b"}")))
    depth = rng.choice((3, 300, 2000))
    places = list(_WORD.finditer(message))
    start, end = rng.choice(places).span() if places and rng.random() < 0.8 else (rng.randint(0, len(message)),) * 2
    return message[:start] + open_ * depth + b"1" + close * depth + message[end:]


TEXT_MUTATIONS: tuple[Mutate, ...] = (*MUTATIONS, words, words, lines, nest)
"""For what people write too: names, times and lines."""
