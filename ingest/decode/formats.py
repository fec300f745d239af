"""Formats by name. Facts."""

from collections.abc import Callable, Mapping
from functools import partial

from ingest.decode import cadvisor, exposition, otlp_json, otlp_proto, prometheus_adapter, sniff, telegraf
from ingest.decode.native import decoder as native
from ingest.decode.types import Decode
from ingest.errors import UnknownFormat
from ingest.exporters import EXPORTERS
from ingest.mapping import MetricMap
from ingest.schema import LANDED, Table

Factory = Callable[[MetricMap], Decode]


def _native(table: Table, _mapping: MetricMap) -> Decode:
    return native(table)


FORMATS: Mapping[str, Factory] = {
    "auto": sniff.decoder,
    sniff.TELEGRAF: telegraf.decoder,
    sniff.ADAPTER: prometheus_adapter.decoder,
    sniff.TEXT: exposition.decoder,
    sniff.OTLP_PROTO: otlp_proto.decoder,
    sniff.OTLP_JSON: otlp_json.decoder,
    sniff.CADVISOR: cadvisor.decoder,
    **{f"native-{name}": partial(_native, table) for name, table in LANDED.items()},
}
"""Makes each format's decoder under a mapping; ours needs none."""


def decoder_named(name: str, mapping: MetricMap = EXPORTERS) -> Decode:
    """The decoder of a format.

    Raises:
        UnknownFormat: no format has that name.
    """
    if name not in FORMATS:
        raise UnknownFormat(name, list(FORMATS))
    return FORMATS[name](mapping)
