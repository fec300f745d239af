"""The index of decision records lists every record by its title, and names ten that a maintainer must know."""

import re
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "docs" / "decisions"
INDEX = (FOLDER / "README.md").read_text()


def test_every_record_is_in_the_index_by_its_title() -> None:
    titles = {path.name: path.read_text().splitlines()[0].removeprefix("# ") for path in FOLDER.glob("[0-9]*.md")}

    listed = re.findall(r"^- \[(.*)\]\((\S+)\)$", INDEX, flags=re.MULTILINE)

    assert [(title, name) for title, name in listed] == [(titles[name], name) for name in sorted(titles)]


def test_ten_records_are_named_with_a_reason() -> None:
    named = re.findall(r"^\| \[(\d{4})\]\((\S+)\) \| (.+) \|$", INDEX, flags=re.MULTILINE)

    assert len(named) == 10
    assert all((FOLDER / name).is_file() and name.startswith(number) for number, name, _ in named)
    assert all(reason.endswith(".") for *_, reason in named)


def test_numbers_are_not_reused() -> None:
    numbers = [path.name[:4] for path in FOLDER.glob("[0-9]*.md")]

    assert len(numbers) == len(set(numbers))
