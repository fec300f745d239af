"""Markdown of reference pages: tables and text, with nothing that would be read as markup. Kernels."""

import re
from collections.abc import Iterable, Sequence

_STYLED = re.compile(r"\[/?(?:bold|dim|italic)?\]")
NONE = "–"


def as_text(text: str) -> str:
    """Text as it is to be read: without styles of the terminal, and with its signs kept."""
    plain = _STYLED.sub("", text)
    return plain.replace("<", "&lt;").replace("*", "\\*").strip()


def cell(text: str) -> str:
    """Text on one line of a table."""
    return " ".join(text.split()).replace("|", "\\|") or NONE


def code(text: str) -> str:
    """Something as one types it; a dash for nothing."""
    return f"`{text}`" if text else NONE


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table, with an empty line after it."""
    lines = [headings, ["---"] * len(headings), *([cell(one) for one in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def page(title: str, about: str, parts: Iterable[str]) -> str:
    """A page: its title, what it is, and its parts."""
    return "\n".join([f"# {title}\n", f"{about}\n", *parts]).rstrip("\n") + "\n"
