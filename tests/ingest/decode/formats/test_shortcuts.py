"""Shortcuts: a message that looks like the one before is not parsed again, and must be read as if it were."""

import pyarrow as pa
import pytest

from ingest.decode import samples
from ingest.decode.contract import Decoded
from ingest.decode.formats import prometheus_text
from ingest.decode.formats.format_registry import decoder_named
from ingest.schema.tables import MAX_MESSAGE_BYTES
from tests.ingest.foreign import RFC, TS, context, dumped, same
from tests.ingest.samples_of import MESSAGES, adapter, page, plain_request, telegraf

TAGS = {"host": "n1", "container_name": "web", "cpu": "cpu-total"}


def one_by_one(name: str, *messages: bytes) -> tuple[list[Decoded], list[Decoded]]:
    """Each message by one decoder that has read those before, and by a decoder of its own."""
    knowing = decoder_named(name)
    arrays = [pa.array([message], pa.binary()) for message in messages]
    return [knowing(a, context(1)) for a in arrays], [decoder_named(name)(a, context(1)) for a in arrays]


def check(name: str, *messages: bytes) -> None:
    for number, (known, fresh) in enumerate(zip(*one_by_one(name, *messages), strict=True)):
        assert same(known, fresh), (number, messages[number], known.rows.to_pylist(), fresh.rows.to_pylist())


@pytest.mark.parametrize("name", MESSAGES)
def test_good_messages_are_read_alike_again_and_again(name: str) -> None:
    check(name, *MESSAGES[name] * 4)


def test_a_request_of_the_same_length_with_another_name_is_not_taken_for_the_one_before() -> None:
    first, other = plain_request(), plain_request()
    for made in (first, other):  # what tells them apart lies far behind the beginning
        made.resource_metrics[0].scope_metrics[0].metrics[0].description = "long" * 300
    other.resource_metrics[0].scope_metrics[0].metrics[1].name = "k8s.pod.memory.workinG_set"
    messages = [bytes(made.SerializeToString()) for made in (first, first, first, other, first, other)]

    check("otlp-proto", *messages)


def test_requests_of_several_resources_are_read_resource_by_resource() -> None:
    both, turned = plain_request(), plain_request()
    both.resource_metrics.add().CopyFrom(both.resource_metrics[0])
    both.resource_metrics[1].resource.attributes[1].value.string_value = "0d5a3f6e-1111-2222-3333-444455557777"
    both.resource_metrics[1].scope_metrics[0].metrics.pop()
    turned.CopyFrom(both)
    turned.resource_metrics.reverse()
    messages = [bytes(made.SerializeToString()) for made in (both, both, both, turned, plain_request(), both)]

    check("otlp-proto", *messages)


def test_gauges_that_turn_into_integers_or_lose_their_time_are_parsed_anew() -> None:
    made = [plain_request() for _ in range(6)]
    for one in made:
        del one.resource_metrics[0].scope_metrics[0].metrics[2:]
    points = [one.resource_metrics[0].scope_metrics[0].metrics[0].gauge.data_points[0] for one in made]
    points[2].as_int = 3
    points[3].time_unix_nano = 0
    points[4].time_unix_nano = 5
    points[5].as_double = float("nan")

    check("otlp-proto", *(bytes(one.SerializeToString()) for one in (made[0], made[0], *made)))


def test_points_whose_times_differ_keep_their_own() -> None:
    usual, late = plain_request(), plain_request()
    late.resource_metrics[0].scope_metrics[0].metrics[1].gauge.data_points[0].time_unix_nano += 10**9

    check("otlp-proto", *(bytes(one.SerializeToString()) for one in (usual, usual, usual, late, usual, late, late)))


def test_a_page_is_read_alike_whatever_stands_between_label_and_value() -> None:
    tight = page().replace("} ", "}")
    shorter = "\n".join(page().split("\n")[3:])

    check(
        "prom-text", *(text.encode() for text in (page(), page(), tight, page("web-1"), shorter, page(), tight, tight))
    )


TAILS = (
    *(" 7", "7", "  7", " 7 ", "\t7", " 7\r", "", " ", " x", " 1_0", " nan(1)", " NaN", " +Inf", " ٣", f" {'1' * 50}"),
    *(
        f" 7 {TS}",
        f" 7 {TS}000 ",
        f" 7  {TS}",
        f" 7 {TS} 8",
        f" 7 {TS}x",
        " 7 9999999999999",
        f' 7 # {{a="}} 1"}} 2 {TS}',
    ),
)


@pytest.mark.parametrize("ends", [TAILS, *((tail,) for tail in TAILS)])
def test_many_lines_are_read_as_if_they_were_read_one_by_one(
    ends: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [f"{line.partition('} ')[0]}}}{tail}" for tail in ends for line in page().split("\n")]
    pages = [page(), "\n".join(lines), "# only\n\n", " # only", *lines, "up 1", "up} 1", "}", page()]
    batch = pa.array([None, b"\xff", *(text.encode() for text in pages)] * 2, pa.binary())
    knowing, known = decoder_named("prom-text"), context(len(batch))
    one_by_one = knowing(batch, known)
    monkeypatch.setattr(prometheus_text, "FEW_BYTES", 1)
    monkeypatch.setattr(prometheus_text, "STRETCH_BYTES", 5000)

    assert same(knowing(batch, known), one_by_one)
    assert same(decoder_named("prom-text")(batch, known), one_by_one)


def test_an_adapters_message_whose_later_labels_count_is_not_remembered_by_its_earlier_ones() -> None:
    good = dumped(adapter())
    later = good[:-1] + b',"labels":{"node":"n2","pod":"x","namespace":"y"}}'

    check("prom-adapter", later, later, good, good, later)


@pytest.mark.parametrize("value", [b"\n12", b"12\t", b"1_2", b'1\\"2', b"\\u0031", b"NaN", b"", b"1" * 50, b"\xd9\xa1"])
def test_an_adapters_value_is_taken_only_if_json_would_read_it_so(value: bytes) -> None:
    good = dumped(adapter())

    check("prom-adapter", good, good, good.replace(b'"12.5"', b'"' + value + b'"'), good)


@pytest.mark.parametrize("end", [b'"}}', b'" }', b'"', b'"},', b'","x":1}'])
def test_an_adapters_message_must_end_where_it_should(end: bytes) -> None:
    good = dumped(adapter())

    check("prom-adapter", good, good, good[:-2] + end, good)


def test_a_telegraf_message_with_its_fields_twice_is_not_remembered_by_the_first() -> None:
    fields = b'{"fields":{"used":1},"name":"mem","fields":{"used":2},"tags":{"host":"n1"},"timestamp":%d}' % TS

    check("telegraf-json", fields, fields, fields)


def test_telegraf_messages_with_other_fields_tags_or_times_are_not_taken_for_the_one_before() -> None:
    good = dumped(telegraf())
    changed = [
        dumped(telegraf(fields={"usage_total": 1})),
        dumped(telegraf(fields={"throttling_throttled_time": 1, "usage_total": 2, "usage_percent": 3.0})),
        dumped(telegraf(tags={**TAGS, "container_name": "wob"})),
        dumped(telegraf(fields={"x": {"name": "y"}, "usage_total": 5})),
        dumped(telegraf(timestamp=TS + 1)),
        dumped(telegraf(timestamp=f"{TS}")),
        dumped(telegraf(timestamp=RFC)),
        good[:-1] + b" }",
        good[:-1],
        good + b"}",
        good.replace(b'{"fields":{', b'{"fields":{,'),
        good.replace(b'{"fields":', b'{"fieldz":'),
        good.replace(b":12.5}", b":NaN}"),
        good.replace(b'"tags":', b'"x":1,"tags":'),
        good.replace(b'"n1"', b'"n},\\"timestamp\\":1"'),
        good + b"\n",
        good + b"\n\n",
        good.replace(b'"timestamp":', b'"timestamp":0'),
        good.replace(b'"timestamp":', b'"timestamp":-'),
        good.replace(b'"timestamp":', b'"timestamp":9999999999999'),
    ]

    check("telegraf-json", good, good, *(message for one in changed for message in (one, good, one)))


@pytest.mark.parametrize("name", ["telegraf-json", "cadvisor", "auto"])
def test_what_comes_in_another_order_after_all_was_forgotten_keeps_its_own_labels(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samples, "MAX_SHAPES", 0)
    there, back = (pa.array(m, pa.binary()) for m in (MESSAGES[name], MESSAGES[name][::-1]))
    knowing, known = decoder_named(name), context(len(there))
    knowing(there, known)

    assert same(knowing(back, known), decoder_named(name)(back, known))


def test_a_telegraf_message_that_is_too_long_is_refused_also_where_its_tags_were_met_before() -> None:
    good = dumped(telegraf())

    check("telegraf-json", good, good, good.replace(b'{"fields":{', b'{"fields":{' + b" " * MAX_MESSAGE_BYTES), good)
