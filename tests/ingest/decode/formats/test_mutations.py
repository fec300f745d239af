"""Whatever is sent: nothing is raised, every message gives rows, a reject or a count, and a batch may be cut anywhere.

`make fuzz-decode` does the same with a million messages.
"""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.decode import samples
from ingest.decode.formats.format_registry import decoder_named
from tests.ingest.foreign import FOREIGN, context, decoded, joined, same
from tests.ingest.mutations import check, mutated
from tests.ingest.samples_of import MESSAGES

EACH = 400


@pytest.mark.parametrize("name", FOREIGN)
def test_mutated_messages_never_raise_and_none_is_dropped_in_silence(name: str) -> None:
    messages = mutated(name, EACH, 0)

    check(messages, decoded(name, *messages))


@pytest.mark.parametrize("name", FOREIGN)
def test_every_message_alone_gives_rows_a_reject_or_a_count(name: str) -> None:
    decode = decoder_named(name)
    for message in mutated(name, EACH, 1):
        result = decode(pa.array([message], pa.binary()), context(1))
        assert result.rows.num_rows or result.rejects.num_rows or result.unknown_fields, message


@pytest.mark.parametrize("name", FOREIGN)
def test_a_batch_may_be_cut_anywhere(name: str) -> None:
    messages = mutated(name, 60, 2)
    known = decoder_named(name)

    parts = [known(pa.array([message], pa.binary()), context(1)) for message in messages]

    whole, one_by_one = decoded(name, *messages), joined(parts)
    assert len(one_by_one.unknown_fields) < 100
    assert same(whole, one_by_one)


@pytest.mark.parametrize("name", FOREIGN)
def test_what_is_remembered_changes_no_answer(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    messages = mutated(name, 100, 3)
    decode = decoder_named(name)
    array = pa.array(messages, pa.binary())

    fresh, again = decode(array, context(len(messages))), decode(array, context(len(messages)))
    monkeypatch.setattr(samples, "MAX_SHAPES", 0)
    forgetful = decode(array, context(len(messages)))

    assert same(fresh, again)
    assert same(fresh, forgetful)


@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(FOREIGN), message=st.binary(max_size=200) | st.none())
def test_any_bytes_are_refused_or_read(name: str, message: bytes | None) -> None:
    result = decoded(name, message, MESSAGES[name][0])

    assert 1 in result.rows["message"].to_pylist()
    assert 0 in {*result.rows["message"].to_pylist(), *result.rejects["message"].to_pylist()} or result.unknown_fields
