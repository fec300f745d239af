"""Histograms: response times of requests, and which metrics their count, sum and buckets are. Kernel.

Of OTLP's metric `name` and of Prometheus' `name_unit` the count is the rate of requests, and count and sum of those
that did not fail give their mean: a failure is often quicker than an answer. Buckets give percentiles.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from ingest.decode.metrics.metric_mapping import APP_LEVEL, BOUND, COUNTER, EVERY, UNIT, Conditions, ForeignMetric
from ingest.schema.tables import APP_EXPORTERS, SCRAPED

SPELLED = {"s": ("s", "seconds"), "ms": ("ms", "milliseconds"), "us": ("us", "microseconds")}
"""Units as OTLP and as Prometheus spell them."""
SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6}


@dataclass(frozen=True, slots=True)
class Histogram:
    """One histogram of response times.

    Args:
        name: as OTLP spells it, with dots; or as Prometheus does, without _count, _sum and _bucket.
        unit: of its sum and bounds, where the format names none: a key of SECONDS.
        where: labels, with dots in a name with dots, and the patterns one of which each must match.
        unless: labels and patterns that none may match.
        answered: labels and patterns of the requests whose time counts; empty text matches requests without the label.
        exporter: as in ForeignMetric.
        of: as in ForeignMetric.
        counts: whether its count is the rate of requests; it is not where it counts parts of their answers.
    """

    name: str
    unit: str = "s"
    where: Conditions = field(default_factory=dict)
    unless: Conditions = field(default_factory=dict)
    answered: Conditions = field(default_factory=dict)
    exporter: str = ""
    of: str = APP_LEVEL
    counts: bool = True

    def metrics(self) -> Iterator[ForeignMetric]:
        """What its points become, by all of its spellings."""
        if "." not in self.name:
            yield from self._spelled(self.name, self.unit, plain=True)
            return
        yield from self._spelled(self.name, self.unit, plain=False)
        for unit, (_, suffix) in SPELLED.items():
            yield from self._spelled(f"{self.name.replace('.', '_')}_{suffix}", unit, plain=True)
            yield from self._spelled(f"{self.name}_{suffix}", unit, plain=False)  # Prometheus 3, names in UTF-8

    def _spelled(self, name: str, unit: str, *, plain: bool) -> Iterator[ForeignMetric]:
        where, unless, answered = (
            {label.replace(".", "_") if plain else label: words for label, words in one.items()}
            for one in (self.where, self.unless, self.answered)
        )
        scraped = f"{self.exporter}{SCRAPED}"
        exporter = scraped if plain and "." in self.name and scraped in APP_EXPORTERS else self.exporter
        one = ForeignMetric(
            name, "", COUNTER, where=where, unless=unless, series=(EVERY,), exporter=exporter, of=self.of
        )
        if self.counts:
            yield replace(one, name=f"{name}_count", target="qps")
        yield replace(one, name=f"{name}_count", target="timed_s", where={**where, **answered})
        for other, words in SPELLED.items():
            timed = replace(one, where={**where, **answered, UNIT: (*words, "") if other == unit else words})
            scale = SECONDS[other]
            yield replace(timed, name=f"{name}_sum", target="rt_s", scale=scale)
            yield replace(timed, name=f"{name}_bucket", target="rt_bucket_s", series=(BOUND, EVERY), bound_scale=scale)
