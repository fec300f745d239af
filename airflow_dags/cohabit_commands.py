"""Command lines of the DAGs, as a person types them, with Jinja templates for intervals and Variables.

Data only: neither Airflow nor Cohabit is imported, so that a test compares every command with the real CLI.
"""

import shlex
from dataclasses import dataclass

DAY = "{{ data_interval_start | ds }}"
NEXT_DAY = "{{ data_interval_end | ds }}"
MONTH = '{{ data_interval_start.strftime("%Y-%m") }}'
FIRST = '{{ data_interval_start.strftime("%Y-%m-01") }}'
NEXT_FIRST = '{{ data_interval_end.strftime("%Y-%m-01") }}'
MODEL = "daily-{{ data_interval_end | ds_nodash }}"
BACKUP = "{{ var.value.cohabit_backups }}/{{ data_interval_end | ds }}"
REPORTS = "{{ var.value.cohabit_reports }}"
MAX_ROWS = '{{ var.value.get("cohabit_max_rows", "500000") }}'
CANDIDATES = '{{ var.value.get("cohabit_search_candidates", "15") }}'
KEPT_DAYS = '{{ var.value.get("cohabit_keep_days", "800") }}'
KEPT_RAW_DAYS = '{{ var.value.get("cohabit_keep_raw_days", "100") }}'
RAW = ("--table", "usage", "--table", "samples", "--table", "node_usage", "--table", "dead_letters")
HEAVY, LIGHT = "cohabit_heavy", "cohabit_light"
"""Pools. The heavy one has one slot, so training, billing and promotion never run at the same time."""
PROGRAM = 'exec "${COHABIT_BIN:+$COHABIT_BIN/}cohabit"'
"""From the folder COHABIT_BIN, else from PATH; `exec` replaces the shell, so that stopping a task stops it."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command line, and how Airflow runs it.

    Args:
        words: what follows `cohabit`; each stays one word, whatever Jinja puts into it.
        about: documentation in Markdown: what it does, and what to do when it fails.
        minutes: timeout.
        pool: Airflow pool.
        retries: retries after a failure.
        always: whether it also runs after an upstream failure.
    """

    words: tuple[str, ...]
    about: str
    minutes: int
    pool: str = LIGHT
    retries: int = 3
    always: bool = False


def bash_line(words: tuple[str, ...]) -> str:
    """A bash command template: filter `quote` quotes every word after Jinja has rendered it."""
    quoted = ("{% filter quote %}" + word + "{% endfilter %}" if "{" in word else shlex.quote(word) for word in words)
    return " ".join((PROGRAM, *quoted))


HOURLY = {
    "skew": Command(
        (
            "model",
            "check-skew",
        ),
        "Checks training-serving skew, before profiles are rebuilt. **Fails when features of scores differ from the "
        "lake**: check the lag of Spark and ingest, and compare versions.",
        30,
        retries=1,
    ),
    "features": Command(
        ("features",),
        "Rebuilds every derived table from all ingested rows. A rerun replaces the rows by the same rows.",
        120,
        HEAVY,
        always=True,
    ),
    "drift": Command(
        (
            "model",
            "drift",
        ),
        "Checks the current model for drift and sets the serving mode, before bounds are recalibrated. **Fails when "
        "the mode is lowered**: find the change, then check the newest run of `cohabit_training`; `cohabit model "
        "rollback` restores the previous model. Also fails until a bundle is promoted.",
        30,
        retries=1,
    ),
    "recalibrate": Command(
        (
            "model",
            "recalibrate",
        ),
        "Recalibrates the prediction bounds on newer labels; without newer labels it changes nothing. Fails until a "
        "bundle is promoted: `cohabit model train` creates the first one.",
        30,
        HEAVY,
        always=True,
    ),
    "compact": Command(("lake", "compact"), "Merges small files of the lake; rows are not changed.", 60),
    "outcomes": Command(
        (
            "plan",
            "outcomes",
        ),
        "Reports the outcome of plans exported at least an hour ago. Drafts none.",
        30,
    ),
}

TRAINING = {
    "train": Command(
        ("model", "train", "--until", DAY, "--name", MODEL, "--no-promote", "--max-rows", MAX_ROWS),
        "Writes the day's bundle as a challenger. It is trained on windows that ended before the day, so that the gate "
        "has a day of unseen labels. An existing bundle of that name is kept.",
        300,
        HEAVY,
    ),
    "evaluate": Command(
        ("model", "evaluate", "--report", f"{REPORTS}/evaluation-{NEXT_DAY}", "--max-rows", MAX_ROWS),
        "Writes `report.md` with its figures to Variable `cohabit_reports`; overwrites that of the same day.",
        300,
        HEAVY,
        retries=1,
    ),
    "gate": Command(
        ("model", "gate", MODEL),
        "Compares the challenger with the champion. **Fails when the challenger is rejected**: the champion stays, and "
        "no repair is needed.",
        60,
        HEAVY,
        retries=1,
    ),
    "promote": Command(
        ("model", "promote", MODEL),
        "Promotes the challenger, which requires a passed gate. `cohabit serve` reloads it.",
        10,
        HEAVY,
    ),
}

METERING = {
    "meter": Command(
        ("bill", "meter", "--from", DAY, "--to", NEXT_DAY, "--whole"),
        "Meters the day's hours and replaces earlier rows of them. Fails while an hour has not ended: check the lag of "
        "`cohabit ingest`, and clear the task.",
        120,
        HEAVY,
    ),
    "judge": Command(
        ("bill", "judge", "--from", DAY, "--to", NEXT_DAY),
        "Finds slowed containers and their antagonists of that day. Fails until `cohabit features` has labelled it.",
        120,
        HEAVY,
    ),
    "budgets": Command(
        ("bill", "budgets", "--month", MONTH, "--alert"),
        "Sends one alert to the webhook of budgets for each team that reaches its warning threshold or its budget.",
        30,
    ),
}

BACKUPS = {
    "make": Command(
        ("admin", "backup", "make", BACKUP, "--once"),
        "Copies everything to a folder of the day in Variable `cohabit_backups`. A complete backup is kept; a partial "
        "one of a killed run is replaced.",
        240,
    ),
    "verify": Command(
        ("admin", "backup", "verify", BACKUP),
        "Reads the whole backup and compares checksums. When it fails, the disk has corrupted files: remove that "
        "folder, check the disk, and clear both tasks.",
        240,
        retries=1,
    ),
}

SEARCHING = {
    "search": Command(
        ("model", "tune", "--candidates", CANDIDATES, "--out", f"{REPORTS}/search-{NEXT_DAY}.json"),
        "Searches hyperparameters, and reports whether any setting beats the default significantly. Changes nothing: "
        "read the last line, or the file in Variable `cohabit_reports`.",
        600,
        HEAVY,
        retries=1,
    ),
}

BILLING = {
    "meter": Command(
        ("bill", "meter", "--from", FIRST, "--to", NEXT_FIRST, "--whole"),
        "Meters the month again, to include late usage and bills.",
        600,
        HEAVY,
    ),
    "judge": Command(
        ("bill", "judge", "--from", FIRST, "--to", NEXT_FIRST),
        "Finds slowed containers of the month again, with late labels.",
        600,
        HEAVY,
    ),
    "draft": Command(
        ("bill", "close", "--month", MONTH, "--renew"),
        "Drafts the closing of the month, and prints it with its name. It replaces an unconfirmed draft; a closed "
        "month stays closed. A failure names the missing input: a price book, a bill of a pool, an hour.",
        240,
        HEAVY,
    ),
    "export": Command(
        ("bill", "focus", "--month", MONTH, "--out", f"{REPORTS}/focus-{MONTH}.csv"),
        "Writes the closed month as FOCUS 1.2 to Variable `cohabit_reports`.",
        240,
    ),
}
NOT_CLOSED = 3
"""Exit code of `cohabit bill closed` while the month is not closed."""
APPROVED = Command(
    ("bill", "closed", "--month", MONTH),
    "Waits until **a person** has reviewed the draft and closed the month, by `cohabit bill close --month … "
    "--confirm …` or on the month's page. No DAG does that. Times out after three weeks, and fails at once where "
    "the state cannot be read, as without a database: clear it to wait again.",
    10,
)

RETENTION = {
    "expire_raw": Command(
        ("lake", "expire", "--before", NEXT_DAY, "--keep-days", KEPT_RAW_DAYS, "--yes", *RAW),
        "Deletes ingested rows older than Variable `cohabit_keep_raw_days` (100). Afterwards their month cannot be "
        "metered again. Fails, and deletes nothing, unless the variable is at least 30 days.",
        120,
    ),
    "expire": Command(
        ("lake", "expire", "--before", NEXT_DAY, "--keep-days", KEPT_DAYS, "--yes"),
        "Deletes all rows older than Variable `cohabit_keep_days` (800), except nodes and placements. Afterwards their "
        "month can be neither billed nor corrected. Fails, and deletes nothing, unless the variable is at least 30 "
        "days.",
        120,
    ),
}
