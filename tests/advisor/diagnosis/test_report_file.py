"""Told: diagnoses as a file that whoever serves reads, whole or not at all."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.diagnosis import report_file as module
from advisor.diagnosis.report_file import FILE, FORMAT, MAX_BYTES, read_report, write_report
from advisor.diagnosis.report_reader import NewestReport
from advisor.errors import AdvisorError, NothingDiagnosed, UnreadableDiagnoses
from tests.advisor.diagnoses import AT_US, FOUND, diagnosis, suspect, told


def test_what_is_told_is_read_as_it_was(tmp_path: Path) -> None:
    write_report(tmp_path, FOUND)

    found = read_report(tmp_path)

    assert found is not None
    assert repr(found) == repr(FOUND)  # equal, also where a number is not known, which equals nothing


def test_what_is_no_number_is_null_in_the_file(tmp_path: Path) -> None:
    one = diagnosis(slowdown=math.nan, suspects=(replace(suspect(), low=-math.inf),))

    written = json.loads(write_report(tmp_path, told(one)).read_text())

    assert (written["format"], written["cluster"], written["at_us"]) == (FORMAT, "c", AT_US)
    assert written["diagnoses"][0]["slowdown"] is None
    assert written["diagnoses"][0]["slowdowns"][3] is None
    assert written["diagnoses"][0]["suspects"][0]["low"] is None


def test_what_is_newer_takes_the_place_of_what_was_there(tmp_path: Path) -> None:
    write_report(tmp_path, FOUND)
    write_report(tmp_path, told())

    assert read_report(tmp_path) == told()
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_where_nobody_looked_there_is_nothing(tmp_path: Path) -> None:
    assert read_report(tmp_path / "nowhere") is None


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "truncated"),
        (b"\xff\xfe", "invalid|malformed"),
        (b"[]", "Expected `object`"),
        (b'{"x":' + b"[" * 5000, "recursion"),
        (b"{}", "missing required field `format`"),
        (b'{"format": 3, "what": "ever"}', "its format is 3, and this Cohabit reads 2"),
        (b'{"format": 2, "cluster": "c", "at_us": 1, "created_us": 1}', "missing required field `diagnoses`"),
        (b'{"format": 2, "cluster": "c", "at_us": 1, "created_us": 1, "diagnoses": [{"node": 1}]}', r"diagnoses\[0\]"),
    ],
)
def test_what_cannot_be_read_is_named_with_what_to_do(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / FILE).write_bytes(content)

    with pytest.raises(UnreadableDiagnoses, match=rf"{FILE}.*({said}).*cohabit victims --publish"):
        read_report(tmp_path)


def test_fields_of_a_later_cohabit_are_passed_over(tmp_path: Path) -> None:
    written = json.loads(write_report(tmp_path, FOUND).read_text()) | {"later": 1}
    written["diagnoses"][0] |= {"later": 1}
    (tmp_path / FILE).write_text(json.dumps(written))

    assert repr(read_report(tmp_path)) == repr(FOUND)


def test_what_is_too_large_is_neither_written_nor_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / FILE).open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(UnreadableDiagnoses, match=f"exceeds {MAX_BYTES} bytes"):
        read_report(tmp_path)

    monkeypatch.setattr(module, "MAX_BYTES", 1000)
    with pytest.raises(AdvisorError, match="4 victims"):
        write_report(tmp_path, FOUND)


def test_the_file_is_read_when_it_changed_and_not_for_each_question(tmp_path: Path) -> None:
    newest = NewestReport(tmp_path)
    with pytest.raises(NothingDiagnosed, match="cohabit victims --publish"):
        newest.report()

    write_report(tmp_path, FOUND)
    for _ in range(5):
        assert len(newest.report().diagnoses) == 4
    assert newest.read == 1
    write_report(tmp_path, told())

    assert newest.report() == told()
    assert newest.read == 2


def test_a_broken_file_is_told_again_and_again_until_it_is_whole(tmp_path: Path) -> None:
    newest = NewestReport(tmp_path)
    (tmp_path / FILE).write_text("{")
    for _ in range(3):
        with pytest.raises(UnreadableDiagnoses):
            newest.report()
    assert newest.read == 1

    write_report(tmp_path, told())

    assert newest.report() == told()
