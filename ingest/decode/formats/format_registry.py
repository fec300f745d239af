"""Formats by name. Facts."""

from collections.abc import Callable, Mapping

from ingest.decode.contract import Decode
from ingest.decode.formats import detect
from ingest.decode.formats.native import decoder as native
from ingest.decode.metrics.known_metrics import EXPORTERS
from ingest.decode.metrics.metric_mapping import MetricMap
from ingest.schema.errors import IngestError
from ingest.schema.tables import LANDED, Table


def _native(table: Table) -> Callable[[MetricMap], Decode]:
    return lambda _mapping: native(table)


FORMATS: Mapping[str, Callable[[MetricMap], Decode]] = {
    "auto": detect.decoder,
    **detect.FOREIGN,
    **{f"native-{name}": _native(table) for name, table in LANDED.items()},
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
