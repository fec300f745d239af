"""Formats by name. Facts."""

from collections.abc import Callable, Mapping
from functools import partial

from ingest.decode.contract import Decode
from ingest.decode.formats import cadvisor, otlp_json, otlp_proto, prometheus_adapter, telegraf
from ingest.decode.formats import detect as sniff
from ingest.decode.formats import prometheus_text as exposition
from ingest.decode.formats.native import decoder as native
from ingest.decode.metrics.known_metrics import EXPORTERS
from ingest.decode.metrics.metric_mapping import MetricMap
from ingest.schema.errors import IngestError
from ingest.schema.tables import LANDED, Table

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
        IngestError: no format has that name.
    """
    if name not in FORMATS:
        raise IngestError(f"no format {name!r}; formats are {', '.join(FORMATS)}")
    return FORMATS[name](mapping)
