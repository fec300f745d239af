"""Paging: a part of many rows. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Sheet(Generic[R]):
    """A part of many rows.

    Args:
        rows: those of this page.
        page: from 1.
        pages: how many there are, at least 1.
        first: number of the first row, from 1; 0 without rows.
        total: rows on all pages.
    """

    rows: Sequence[R]
    page: int
    pages: int
    first: int
    total: int


def sheet(rows: Sequence[R], page: int, size: int) -> Sheet[R]:
    """The page that was asked for, or the last one where there are fewer."""
    pages = max(1, -(-len(rows) // size))
    page = min(page, pages)
    start = (page - 1) * size
    return Sheet(rows[start : start + size], page, pages, start + 1 if rows else 0, len(rows))
