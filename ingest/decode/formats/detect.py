"""Format `auto`: each message by its own looks, for topics that several exporters share. Kernel.

Everything lands in `samples`, our own records of samples included. Our own records of other tables are refused, since a
batch has one table: their topic needs its own format. A configured format is quicker, and says better what is wrong.
"""

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from ingest.decode.contract import UNDECODABLE, Context, Decode, Decoded, Reject, rejects_table, rows_schema
from ingest.decode.formats import cadvisor, otlp_json, otlp_proto, prometheus_adapter, prometheus_text, telegraf
from ingest.decode.formats.native import decoder as native
from ingest.decode.json_records import complaint, envelope, load, wrapping
from ingest.decode.merge import decode_some, merged
from ingest.decode.metrics.metric_mapping import MetricMap
from ingest.decode.samples import decoder_of
from ingest.schema.tables import MAX_MESSAGE_BYTES, SAMPLES

TELEGRAF, ADAPTER, TEXT, CADVISOR = "telegraf-json", "prom-adapter", "prom-text", "cadvisor"
OTLP_PROTO, OTLP_JSON, OWN = "otlp-proto", "otlp-json", "native-samples"
BEGINNINGS = {
    b'{"resourceMetrics":': OTLP_JSON,
    b'{"fields":': TELEGRAF,
    b'{"metrics":': TELEGRAF,
    b'{"labels":': ADAPTER,
}
"""How exporters that sort their keys begin."""
KEYS = (
    ({"resourceMetrics"}, OTLP_JSON),
    ({"container_stats"}, CADVISOR),
    ({"fields", "tags"}, TELEGRAF),
    ({"metrics"}, TELEGRAF),
    ({"labels", "value"}, ADAPTER),
    ({"metric", "value", "node", "container"}, OWN),
)
"""Keys of a JSON object, and the format that has them."""
OWN_OTHER = ({"node", "interval_s"}, {"node", "event"}, {"node", "cores"})
"""Keys of our own records of other tables."""
RESOURCE_METRICS, MAX_VARINT = b"\x0a", 10
"""Tag of the one field of a request for metrics, and the most bytes of a length. Source: protobuf's encoding."""
_METRIC_LINE = re.compile(rb"\s*(#|[a-zA-Z_:][a-zA-Z0-9_:]*\s*[{ \t]|\{\s*\"(?:[^\"\\]|\\.)*\"\s*[,}])")
FOREIGN: Mapping[str, Callable[[MetricMap], Decode]] = {
    TELEGRAF: partial(decoder_of, telegraf.read),
    ADAPTER: partial(decoder_of, prometheus_adapter.read),
    TEXT: partial(decoder_of, prometheus_text.read),
    OTLP_PROTO: partial(decoder_of, otlp_proto.read),
    OTLP_JSON: partial(decoder_of, otlp_json.read),
    CADVISOR: cadvisor.decoder,
}
"""Makes the decoder of each format of others under a mapping."""
_OWN = "our own JSON, which auto takes for samples alone: set the topic's format, as in --topic NAME=native-usage"


class Looks(NamedTuple):
    """The format a message looks like, or why it is none."""

    format: str = ""
    complaint: str = ""


def decoder(mapping: MetricMap) -> Decode:
    """The decoder that looks at each message, under a mapping."""
    formats = {OWN: native(SAMPLES), **{name: make(mapping) for name, make in FOREIGN.items()}}

    def decode(messages: pa.BinaryArray, context: Context) -> Decoded:
        groups: dict[str, list[int]] = {}
        refused: list[Reject] = []
        for number, message in enumerate(messages.to_pylist()):
            looks = sniff(message)
            groups.setdefault(looks.format, []).append(number)
            if not looks.format:
                refused.append(Reject(number, "", UNDECODABLE, looks.complaint))
        parts = [decode_some(formats[name], messages, context, found) for name, found in groups.items() if name]
        nothing = rows_schema(SAMPLES).empty_table()
        return merged(SAMPLES.name, [Decoded(SAMPLES.name, nothing, rejects_table(refused)), *parts])

    return decode


def sniff(message: bytes | None) -> Looks:
    """The format of one message: protobuf by its framing, JSON by its keys, text by its first line."""
    if message is None or not message or len(message) > MAX_MESSAGE_BYTES:
        return Looks(complaint="the message is empty" if message == b"" else complaint(message, None))
    if _is_framed(message):
        return Looks(OTLP_PROTO)
    if _METRIC_LINE.match(message):
        return Looks(TEXT)
    if message.lstrip()[:1] in {b"{", b"["}:
        return _sniff_json(message)
    why = wrapping(message) or "neither JSON, nor a metric's line, nor OTLP's protobuf: set the topic's format"
    return Looks(complaint=why)


def _is_framed(message: bytes) -> bool:
    """Whether it is fields of number 1 with a length throughout, as the protobuf of a request for metrics is."""
    at = 0
    while message[at : at + 1] == RESOURCE_METRICS:
        size = next((n for n in range(1, MAX_VARINT + 1) if message[at + n : at + n + 1] < b"\x80"), MAX_VARINT)
        digits = message[at + 1 : at + 1 + size]
        at += 1 + size + sum((digit & 0x7F) << 7 * place for place, digit in enumerate(digits))
    return at == len(message)


def _sniff_json(message: bytes) -> Looks:
    for beginning, name in BEGINNINGS.items():
        if message.startswith(beginning):
            return Looks(name)
    parsed = load(message)
    if not isinstance(parsed, dict):
        own = isinstance(parsed, list) and any(isinstance(entry, dict) for entry in parsed)
        return Looks(complaint=_OWN if own else complaint(message, parsed))
    keys = parsed.keys()
    name = next((name for wanted, name in KEYS if wanted <= keys), "")
    if name:
        return Looks(name)
    ours = any(wanted <= keys for wanted in OWN_OTHER)
    unknown = envelope(parsed) or "JSON of no format that is known: set the topic's format"
    return Looks(complaint=_OWN if ours else unknown)
