"""Files of comma-separated values: each cell by name, and refusals that name file, line, column and what to write."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from difflib import get_close_matches
from math import isfinite
from pathlib import Path

from cohabit.config.errors import CohabitError

MAX_BYTES = 64 << 20
MAX_WHOLE = 10**9


@dataclass(frozen=True)
class Line:
    """A line of a file.

    Args:
        path: of the file.
        number: of the line, from 1.
        cells: text by column; empty where the file has no such column.
    """

    path: Path
    number: int
    cells: Mapping[str, str]

    def refused(self, column: str, advice: str) -> CohabitError:
        """What to raise of a cell."""
        cell = self.cells.get(column, "")
        return CohabitError(f"{self.path}:{self.number}, column {column}: {cell!r}: {advice}")

    def text(self, column: str) -> str:
        """A name.

        Raises:
            CohabitError: it is empty, or no line of printable characters.
        """
        found = self.cells.get(column, "")
        if not found or not found.isprintable() or len(found) > 200:
            raise self.refused(column, "write a name of 1 to 200 printable characters")
        return found

    def whole(self, column: str, low: int = 0, *, blank: int | None = None) -> int:
        """A whole number of at least `low`; `blank` where the cell is empty.

        Raises:
            CohabitError: it is none.
        """
        found = self.cells.get(column, "")
        if not found and blank is not None:
            return blank
        if not found.isascii() or not found.isdigit() or len(found) > 10 or not low <= int(found) <= MAX_WHOLE:
            raise self.refused(column, f"write a whole number from {low:,} to {MAX_WHOLE:,} without separators")
        return int(found)

    def number_of(self, column: str, low: float = 0.0, *, blank: float | None = None) -> float:
        """A decimal number of at least `low`; `blank` where the cell is empty.

        Raises:
            CohabitError: it is none.
        """
        if not self.cells.get(column, "") and blank is not None:
            return blank
        try:
            found = float(self.cells.get(column, ""))
        except ValueError:
            found = float("nan")
        if not isfinite(found) or not low <= found <= MAX_WHOLE:
            raise self.refused(column, f"write a number of at least {low:g} with a decimal point, as 1250.50")
        return found

    def day(self, column: str, blank: date | None = None) -> date:
        """A day; `blank` where the cell is empty.

        Raises:
            CohabitError: it is none.
        """
        found = self.cells.get(column, "")
        if not found and blank is not None:
            return blank
        return self._date(column, found, "a day as 2027-03-31")

    def month(self, column: str) -> date:
        """The first day of a month.

        Raises:
            CohabitError: it is no month.
        """
        return self._date(column, f"{self.cells.get(column, '')}-01", "a month as 2027-03")

    def one_of(self, column: str, words: Mapping[str, bool], *, blank: bool) -> bool:
        """What a word means; `blank` where the cell is empty.

        Raises:
            CohabitError: it is none of the words.
        """
        found = self.cells.get(column, "")
        if found and found not in words:
            raise self.refused(column, f"write one of {', '.join(words)}")
        return words[found] if found else blank

    def _date(self, column: str, text: str, form: str) -> date:
        try:
            return date.fromisoformat(text if len(text) == 10 else "")
        except ValueError as error:
            raise self.refused(column, f"write {form}") from error


def lines_of(path: Path, needed: Sequence[str], optional: Sequence[str] = ()) -> list[Line]:
    """Lines of a file below its header.

    Args:
        path: UTF-8, comma-separated; columns in any order, empty lines are left out.
        needed: columns that the header must have.
        optional: further columns that it may have.

    Raises:
        CohabitError: it cannot be read, a column is missing or unknown, or a line has too many or too few cells.
    """
    rows = _rows(path)
    _, header = next(rows, (1, []))
    if not header:
        raise CohabitError(f"{path}: the file is empty: begin with the header `{','.join(needed)}`")
    header = [name.strip() for name in header]
    _refuse_header(path, header, needed, optional)
    found = []
    for number, row in rows:
        if len(row) != len(header):
            raise CohabitError(
                f"{path}:{number}: {len(row)} cells, where the header has {len(header)}: write one each, and no "
                "commas in numbers"
            )
        found.append(Line(path, number, dict(zip(header, (cell.strip() for cell in row), strict=True))))
    if not found:
        raise CohabitError(f"{path}: no line below the header: write one for each row, as `{','.join(needed)}`")
    return found


def _refuse_header(path: Path, header: Sequence[str], needed: Sequence[str], optional: Sequence[str]) -> None:
    for name in header:
        if name not in (*needed, *optional):
            close = get_close_matches(name, [*needed, *optional], 1)
            known = f"write {close[0]}" if close else f"known are {', '.join((*needed, *optional))}"
            raise CohabitError(f"{path}:1, column {name or '(empty)'}: there is no such column: {known}")
    for name in needed:
        if header.count(name) != 1:
            raise CohabitError(
                f"{path}:1, column {name}: it stands {header.count(name)} times in the header: write it once, as in "
                f"`{','.join(needed)}`"
            )


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Line number and cells of all lines that are not empty."""
    content = path.read_bytes()
    if len(content) > MAX_BYTES:
        raise CohabitError(f"{path}: {len(content):,} bytes, and {MAX_BYTES:,} are the most: split the horizon")
    try:
        reader = csv.reader(content.decode("utf-8-sig").splitlines(), strict=True)
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise CohabitError(f"{path}:{line}: a byte that is not UTF-8: save the file as UTF-8") from error
    while True:
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise CohabitError(f"{path}:{reader.line_num}: {error}: close quotes within the line") from error
        if row is None:
            return
        if any(cell.strip() for cell in row):
            yield reader.line_num, row
