"""`python -m e2e.airflow`: Airflow runs every DAG on a small site; killed commands are tried again and double nothing.

Exit 1 where a DAG does not succeed, where a try after kill -9 leaves something else than a run that was never killed,
where a month is closed without a person, or where nobody is told of a failure.
"""

import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from cohabit.terminal.console import console, show_error, show_table
from e2e.airflow import running
from e2e.airflow.errors import AirflowE2eError
from e2e.airflow.killing import Digest, differing, killed, measured, models_of, tables_of
from e2e.airflow.listening import webhook
from e2e.airflow.running import Ran
from e2e.airflow.site import Site, closed_by_a_person, land_the_rest, made, serve_a_little

Verdict = tuple[bool, str]
DAY, NEXT_DAY, MONTH = "2026-03-03T05:00", "2026-03-04T05:00", "2026-04-03"
HOUR = "2026-03-03T03:30"
AGES_LATER = "2026-06-20"
FUTURE = "2100-01-02T05:00"
MIDWAY = 0.4
"""Of what a command used of the processor, when its twin is killed."""
METERED = ("metered", "pool_hours", "idle")


def main(words: Sequence[str] | None = None) -> int:
    """Run everything; the exit code."""
    arguments = _parser().parse_args(words)
    runs, well = [], True
    try:
        running.installed()
        with tempfile.TemporaryDirectory(prefix="cohabit-e2e-airflow-") as name:
            for found in _steps(Path(arguments.keep or name) / "site"):
                if isinstance(found, Ran):
                    runs.append(found)
                    _show_run(found)
                else:
                    well &= found[0]
                    console.print(f"{'ok' if found[0] else 'FAILED':<8}{found[1]}", soft_wrap=True)
            missing = sorted(set(running.read(Path(name), {})["dags"]) - {one.dag for one in runs})
    except AirflowE2eError as error:
        show_error(error)
        return 1
    _show_table(runs)
    if missing:
        console.print(f"never ran: {', '.join(missing)}")
    return 0 if well and not missing and all(one.well for one in runs) else 1


def _steps(folder: Path) -> Iterator[Ran | Verdict]:
    site = made(folder)
    running.prepared(site)
    yield from _beside_a_killed_one(site, "cohabit_training", NEXT_DAY, ("model", "train"), models_of)
    serve_a_little(site)
    land_the_rest(site)
    yield from _beside_a_killed_one(site, "cohabit_hourly", HOUR, ("features",), _tables)
    yield from _beside_a_killed_one(site, "cohabit_metering", DAY, ("bill", "meter"), _tables)
    yield from _again(site)
    yield running.run(site, "cohabit_backups", DAY)
    yield running.run(site, "cohabit_searching", MONTH)
    yield from _a_month(site)
    yield from _a_failure(site)
    yield from _retention(site)


def _beside_a_killed_one(
    site: Site, dag: str, at: str, words: Sequence[str], left: Callable[[Site], Mapping[str, object]]
) -> Iterator[Ran | Verdict]:
    """A DAG on a site, and on a copy of it with one command killed mid-way; what is left of both."""
    copy, name = site.copy(f"{dag}-killed"), words[-1]
    with measured(site, words) as used:
        yield running.run(site, dag, at)
    with killed(copy, words, used.seconds * MIDWAY) as done:
        again = running.run(copy, dag, at)
    tries, other = again.task(name).tries, differing(left(site), left(copy))
    was = "was killed" if done.is_set() else "was NOT killed"
    told = "the same" if not other else f"OTHERS: {', '.join(other)}"
    said = f"tried {tries} times, run {again.state}; {_counted(left(site))} are {told}"
    well = used.seconds > 0 and done.is_set() and again.well and tries == 2 and not other
    yield well, f"{dag}: {' '.join(words)} {was} mid-way, {said}"
    running.forget(copy)


def _tables(site: Site) -> dict[str, Digest]:
    return tables_of(site.lake)


def _counted(left: Mapping[str, object]) -> str:
    rows = sum(one[0] for one in left.values() if isinstance(one, tuple))
    return f"{len(left):,} tables of {rows:,} rows" if rows else f"{len(left):,} models"


def _again(site: Site) -> Iterator[Verdict]:
    """The same day once more, as a backfill that reprocesses does."""
    before = tables_of(site.lake, METERED)
    ran = running.run(site, "cohabit_metering", DAY)
    same = tables_of(site.lake, METERED) == before
    rows = sum(count for count, _ in before.values())
    yield (
        ran.well and same,
        f"cohabit_metering of the same day again: {rows:,} rows are {'the same' if same else 'OTHERS'}",
    )


def _a_month(site: Site) -> Iterator[Ran | Verdict]:
    with closed_by_a_person(site, "2026-03") as done:
        ran = running.run(site, "cohabit_billing", MONTH)
    yield ran
    asked = ran.log.read_text().count("--confirm")
    exported = (site.folder / "it's reports" / "focus-2026-03.csv").is_file()
    yield (
        done.is_set() and exported and asked > 1,
        (
            f"the month was closed by {'a person' if done.is_set() else 'NO ONE'}, as required; "
            f"{'exported' if exported else 'NOT exported'}"
        ),
    )
    yield running.run(site, "cohabit_billing", MONTH).well, "the same month again changes nothing, and is well"


def _a_failure(site: Site) -> Iterator[Verdict]:
    with webhook() as (url, told):
        ran = running.run(site, "cohabit_metering", FUTURE, {"AIRFLOW_VAR_COHABIT_WEBHOOK": url})
    names, tries = [(one["dag"], one["task"]) for one in told], ran.task("meter").tries
    well = ran.state == "failed" and names == [("cohabit_metering", "meter")]
    yield well, f"a day that is not over: run {ran.state} after {tries} tries, the webhook was told {len(told)} times"


def _retention(site: Site) -> Iterator[Ran | Verdict]:
    before = site.lake.read("usage", columns=[]).num_rows
    yield running.run(site, "cohabit_retention", AGES_LATER)
    after, metered = site.lake.read("usage", columns=[]).num_rows, site.lake.read("metered", columns=[]).num_rows
    yield (
        after == 0 < metered,
        f"100 days later {before:,} rows of usage are {after:,}, and {metered:,} of metered stay",
    )


def _show_run(ran: Ran) -> None:
    console.print(f"{'ok' if ran.well else 'FAILED':<8}{ran.dag}: {', '.join(map(str, ran.tasks))}", soft_wrap=True)
    if not ran.well:
        console.print(ran.log.read_text()[-6000:])


def _show_table(runs: Sequence[Ran]) -> None:
    rows = [(one.dag, ", ".join(map(str, one.tasks)), f"{one.seconds:.0f}", one.state) for one in runs]
    show_table("runs of Airflow", ("DAG", "tasks", "seconds", "outcome"), rows)


def _parser() -> ArgumentParser:
    parser = ArgumentParser("python -m e2e.airflow", description="every DAG by a real Airflow, on a small site")
    parser.add_argument("--keep", metavar="DIR", help="make the site here, and leave it")
    return parser


if __name__ == "__main__":
    sys.exit(main())
