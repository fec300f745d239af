"""Everything that reads input from outside takes what is good, and refuses what is broken with an error of ours.

`make fuzz` does the same for half an hour.
"""

import importlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import structlog

from cohabit.config.logs import set_up_logs
from tests.fuzzing.attempt import ACCEPTED, Crash, attempt, broken_inputs
from tests.fuzzing.target import Target, in_memory
from tests.fuzzing.targets import all_targets

EACH = 50
READERS = {
    "ingest.decode.formats.format_registry",
    "ingest.decode.formats.native",
    "ingest.decode.metrics.metric_mapping",
    "ingest.traces.convert",
    "ingest.kube.list_watch",
    "ingest.kube.watcher",
    "features.metering.invoices",
    "cohabit.capacity.planner_files",
    "models.bundle.bundle",
    "models.bundle.manifest",
    "models.registry.registry",
    "models.drift.drift_status",
    "models.registry.registry_log",
    "models.bundle.signing",
    "cohabit.lifecycle.drift",
    "advisor.api.app",
    "advisor.api.scheduler.admission",
    "advisor.api.scheduler.scheduler_app",
    "advisor.auth.oidc",
    "advisor.cluster.snapshot",
    "advisor.placement.decision_log",
    "advisor.diagnosis.report_file",
    "advisor.remediation.options_file",
    "advisor.billing.pricing.price_book_toml",
    "advisor.billing.lines.line",
    "advisor.billing.lines.parquet",
    "advisor.billing.ledger.price_book_records",
    "advisor.billing.ledger.drafts",
    "advisor.plans.rules.plan_record",
    "cohabit.config.settings",
    "cohabit.config.change_windows",
    "cohabit.config.topic_formats",
    "cohabit.doctor.scheduler_config",
    "cohabit.doctor.reply",
    "cohabit.plans.dry_run",
    "cohabit.backup.archive",
    "cohabit.billing.inputs",
    "cohabit.billing.statements.explain",
    "cohabit.lifecycle.training_serving_skew",
    "cohabit.plans.plan_inputs",
    "advisor.scoring.score_table_file",
    "advisor.ui.site.forms",
    "ingest.lake.fence",
    "cohabit.backtest.pair_file",
    "benchmarks.interference_files",
    "benchmarks.reassign.roadef",
    "benchmarks.reassign.tianchi",
}


@pytest.fixture(scope="module")
def targets() -> Iterator[dict[str, Target]]:
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    with TemporaryDirectory(dir=in_memory()) as folder:
        yield all_targets(Path(folder))
    set_up_logs("DEBUG")


def test_every_reader_is_a_target(targets: dict[str, Target]) -> None:
    assert {target.module for target in targets.values()} == READERS
    for module in READERS:
        importlib.import_module(module)


def test_what_is_good_is_accepted(targets: dict[str, Target]) -> None:
    for target in targets.values():
        assert [attempt(target, good) for good in target.good] == [ACCEPTED] * len(target.good), target.name


def test_what_is_broken_is_refused_with_an_error_of_ours(targets: dict[str, Target]) -> None:
    for target in targets.values():
        for told in islice(broken_inputs(target, 0), EACH):
            found = attempt(target, told)
            assert not isinstance(found, Crash), f"{target.name} {told.hex()[:4000]}\n{found.trace}"


def test_what_comes_out_that_should_not_is_a_crash() -> None:
    def read(told: bytes) -> None:
        raise KeyError(told)

    found = attempt(Target("x", "y", (b"1",), read, (ValueError,)), b"1")

    assert isinstance(found, Crash)
    assert found.what == "KeyError: b'1'"
    assert attempt(Target("x", "y", (b"1",), read, (KeyError,)), b"1") == "KeyError"
