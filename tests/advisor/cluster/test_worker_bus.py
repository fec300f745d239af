"""Journals: what one worker tells every other one hears, once, in its order, whenever it listens."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from advisor.cluster import worker_bus as journals
from advisor.cluster.pending_pod import PodClass
from advisor.cluster.worker_bus import Coming, Counted, Journal, News
from tests.advisor.full_disk import no_room_beyond

WEB = PodClass("web", False)
WORKERS = 3


def coming(number: int) -> Coming:
    return Coming(f"pod-{number}", "n0", WEB, number)


def counted(number: int) -> Counted:
    return Counted(7, "bundle", f"n{number}", number, ((WEB, 3, 1.25), (PodClass("", True), 10, 0.0)))


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Journal, Journal]]:
    with closing(Journal(tmp_path, 0, 2)) as one, closing(Journal(tmp_path, 1, 2)) as other:
        yield one, other


acts = st.lists(st.tuples(st.integers(0, WORKERS - 1), st.sampled_from(["coming", "counted", "listen"])), max_size=60)


@given(acts, st.integers(1, 400))
def test_everything_told_is_heard_by_all_others_once_and_in_order(acts: list[tuple[int, str]], most: int) -> None:
    told: dict[int, list[News]] = {worker: [] for worker in range(WORKERS)}
    heard: dict[int, list[News]] = {worker: [] for worker in range(WORKERS)}
    with TemporaryDirectory() as folder, ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        patch.setattr(journals, "MAX_BYTES", 1 << 20)
        all_of_them = [stack.enter_context(closing(Journal(Path(folder), n, WORKERS))) for n in range(WORKERS)]
        for number, (worker, act) in enumerate(acts):
            if act == "listen":
                heard[worker] += all_of_them[worker].heard()
            else:
                told[worker].append(coming(number) if act == "coming" else counted(number))
                all_of_them[worker].publish(told[worker][-1])
        for worker, one in enumerate(all_of_them):
            heard[worker] += one.heard()

    for worker in range(WORKERS):
        others = [news for other in range(WORKERS) if other != worker for news in told[other]]
        assert sorted(map(repr, heard[worker])) == sorted(map(repr, others))
        for other in range(WORKERS):
            if other != worker:
                assert [news for news in heard[worker] if news in told[other]] == told[other]


def test_a_file_that_is_replaced_is_read_to_its_end_first(
    pair: tuple[Journal, Journal], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = pair
    monkeypatch.setattr(journals, "MAX_BYTES", 200)
    found: list[News] = []
    for number in range(500):
        one.publish(coming(number))
        if number % 3 == 0:  # several words to a file, and every file is listened to
            found += other.heard()

    assert [*found, *other.heard()] == [coming(number) for number in range(500)]


def test_who_listens_late_hears_what_the_newest_file_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journals, "MAX_BYTES", 200)
    with closing(Journal(tmp_path, 0, 2)) as one:
        for number in range(100):
            one.publish(coming(number))
        with closing(Journal(tmp_path, 1, 2)) as late:
            heard = list(late.heard())

    assert heard
    assert heard == [coming(number) for number in range(100 - len(heard), 100)]


def test_a_worker_that_comes_back_is_heard_again(tmp_path: Path) -> None:
    with closing(Journal(tmp_path, 0, 2)) as one:
        with closing(Journal(tmp_path, 1, 2)) as other:
            other.publish(coming(1))
            assert list(one.heard()) == [coming(1)]
        with closing(Journal(tmp_path, 1, 2)) as back:
            back.publish(coming(2))
            assert list(one.heard()) == [coming(2)]
            assert list(one.heard()) == []


def test_a_word_that_is_still_being_written_is_waited_for(pair: tuple[Journal, Journal], tmp_path: Path) -> None:
    one, other = pair
    one.publish(coming(1))
    whole = (tmp_path / "worker-0.journal").read_bytes()
    file = os.open(tmp_path / "worker-0.journal", os.O_WRONLY | os.O_APPEND)
    for at, byte in enumerate(whole):
        assert len(list(other.heard())) == (at == 0)
        os.write(file, bytes([byte]))
    os.close(file)

    assert list(other.heard()) == [coming(1)]


@pytest.mark.parametrize("word", [b"\xc1oops", b"\x96\xa6coming\xa2\xff\xfe\xa2n0\x92\xa3web\xc2\x01\xa0"])
def test_a_word_that_is_not_understood_is_passed_over(
    word: bytes, pair: tuple[Journal, Journal], tmp_path: Path
) -> None:
    one, other = pair
    file = os.open(tmp_path / "worker-0.journal", os.O_WRONLY | os.O_APPEND)
    os.write(file, len(word).to_bytes(4, "little") + word)
    os.close(file)
    one.publish(coming(1))

    assert list(other.heard()) == [coming(1)]


@pytest.mark.parametrize("room", range(60, 75))
def test_a_full_disk_costs_the_words_that_had_no_room_and_no_others(room: int, pair: tuple[Journal, Journal]) -> None:
    one, other = pair
    with capture_logs() as logs, no_room_beyond(room):
        for number in range(10):
            one.publish(coming(number))
    before = list(other.heard())
    one.publish(coming(10))

    assert [entry["event"] for entry in logs] == ["cannot send to other workers"]
    assert before == [coming(number) for number in range(len(before))]
    assert 0 < len(before) < 10
    assert list(other.heard()) == [coming(10)]


def test_where_no_new_file_can_be_begun_the_old_one_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journals, "MAX_BYTES", 20)
    (tmp_path / "told").mkdir()
    with closing(Journal(tmp_path / "told", 0, 2)) as one:
        one.publish(coming(1))
        (tmp_path / "told").rename(tmp_path / "away")
        one.publish(coming(2))
        one.publish(coming(3))
        (tmp_path / "away").rename(tmp_path / "told")
        one.publish(coming(4))
        with closing(Journal(tmp_path / "told", 1, 2)) as other:
            assert list(other.heard()) == [coming(4)]


def test_what_a_listener_stumbles_over_is_not_told_again(pair: tuple[Journal, Journal]) -> None:
    one, other = pair
    for number in range(3):
        one.publish(coming(number))

    for news in other.heard():
        assert news == coming(0)
        break

    assert list(other.heard()) == [coming(1), coming(2)]


def test_only_the_owner_may_read(pair: tuple[Journal, Journal], tmp_path: Path) -> None:
    one, _ = pair
    one.publish(coming(1))

    assert (tmp_path / "worker-0.journal").stat().st_mode & 0o077 == 0
