"""What Spark needs of the cache may be put there once, by whoever makes an image."""

from pathlib import Path

import pytest

from features.jobs.spark.session import QUIET_LOGS, _log_settings


def test_settings_of_logs_that_are_there_are_not_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COHABIT_CACHE", str(tmp_path))
    first = _log_settings()
    number = first.stat().st_ino

    assert _log_settings().stat().st_ino == number

    first.write_text("of another version")
    assert _log_settings().read_text() == QUIET_LOGS
