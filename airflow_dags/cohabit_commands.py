"""What the DAGs run: command lines as a person types them, with Jinja where an interval or a Variable comes in.

Data alone: neither Airflow nor Cohabit is imported, so that every line can be held against the real command line.
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
MAX_ROWS = '{{ var.value.get("cohabit_most_rows", "500000") }}'
CANDIDATES = '{{ var.value.get("cohabit_search_candidates", "15") }}'
KEPT_DAYS = '{{ var.value.get("cohabit_keep_days", "800") }}'
KEPT_RAW_DAYS = '{{ var.value.get("cohabit_keep_raw_days", "100") }}'
RAW = ("--table", "usage", "--table", "samples", "--table", "node_usage", "--table", "dead_letters")
HEAVY, LIGHT = "cohabit_heavy", "cohabit_light"
"""Pools. The heavy one has a single place, so what learns, bills and makes a bundle current never does so at once."""
PROGRAM = 'exec "${COHABIT_BIN:+$COHABIT_BIN/}cohabit"'
"""From the folder COHABIT_BIN, else from PATH; in the shell's place, so that stopping a task stops the command."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command line, and how it is run.

    Args:
        words: what follows `cohabit`; each stays one word, whatever Jinja puts into it.
        about: for people, in Markdown: what it does, and what to do when it fails.
        minutes: it is stopped after so many.
        pool: whose place it takes.
        retries: how often it is run again after a failure.
        always: whether it also runs where what it follows has failed.
    """

    words: tuple[str, ...]
    about: str
    minutes: int
    pool: str = LIGHT
    retries: int = 3
    always: bool = False


def bash_line(words: tuple[str, ...]) -> str:
    """A template of a line for bash: every word is quoted after Jinja has filled it in, by the filter `quote`."""
    quoted = ("{% filter quote %}" + word + "{% endfilter %}" if "{" in word else shlex.quote(word) for word in words)
    return " ".join((PROGRAM, *quoted))


HOURLY = {
    "skew": Command(
        (
            "model",
            "check-skew",
        ),
        "Were scores made of the numbers that landed? Asked before profiles are rebuilt. **Fails when they were not**: "
        "look whether Spark or ingest lag, and whether versions differ.",
        30,
        retries=1,
    ),
    "features": Command(
        ("features",),
        "Rebuilds every derived table from all that landed. Run again it writes the same rows in their place.",
        120,
        HEAVY,
        always=True,
    ),
    "drift": Command(
        (
            "model",
            "drift",
        ),
        "Do labels still bear the current model out, and how far is it served from now on? Asked before bounds follow "
        "the labels. **Fails when they do not**: look at what changed, then at the newest run of `cohabit_training`; "
        "`cohabit model rollback` goes back to the models before. Fails, too, until a bundle is current.",
        30,
        retries=1,
    ),
    "recalibrate": Command(
        (
            "model",
            "recalibrate",
        ),
        "Lets bounds follow the labels that came. Without newer labels nothing happens. Fails until a bundle is "
        "current: `cohabit model train` makes the first one.",
        30,
        HEAVY,
        always=True,
    ),
    "compact": Command(("lake", "compact"), "Puts few files of the lake in the place of many; rows stay the same.", 60),
    "outcomes": Command(
        (
            "plan",
            "outcomes",
        ),
        "Tells what came of plans that were given out an hour ago and more. Drafts none.",
        30,
    ),
}

TRAINING = {
    "train": Command(
        ("model", "train", "--until", DAY, "--name", MODEL, "--no-promote", "--max-rows", MAX_ROWS),
        "Writes the day's bundle as a challenger. It learns from what ended before the day, so that the gate has a day "
        "of labels to judge by. One of that name that is there already stays.",
        300,
        HEAVY,
    ),
    "evaluate": Command(
        ("model", "evaluate", "--report", f"{REPORTS}/evaluation-{NEXT_DAY}", "--max-rows", MAX_ROWS),
        "Writes `report.md` with its figures into Variable `cohabit_reports`, over one of the same day.",
        300,
        HEAVY,
        retries=1,
    ),
    "gate": Command(
        ("model", "gate", MODEL),
        "Judges the challenger against the current bundle. **Fails when it is no better**: the current one stays, "
        "and there is nothing to repair.",
        60,
        HEAVY,
        retries=1,
    ),
    "promote": Command(
        ("model", "promote", MODEL),
        "Makes the challenger current, which only works after a passed gate. `cohabit serve` takes it up.",
        10,
        HEAVY,
    ),
}

METERING = {
    "meter": Command(
        ("bill", "meter", "--from", DAY, "--to", NEXT_DAY, "--whole"),
        "Meters the day's hours, in the place of what was metered of them. Fails while some hour is not over: look "
        "whether `cohabit ingest` lags, and clear the task.",
        120,
        HEAVY,
    ),
    "judge": Command(
        ("bill", "judge", "--from", DAY, "--to", NEXT_DAY),
        "Tells who was surely slowed down by whom on that day. Fails until `cohabit features` has labelled the day.",
        120,
        HEAVY,
    ),
    "budgets": Command(
        ("bill", "budgets", "--month", MONTH, "--alert"),
        "Tells the webhook of budgets each team that is warned or has exceeded its own, once.",
        30,
    ),
}

BACKUPS = {
    "make": Command(
        ("admin", "backup", "make", BACKUP, "--once"),
        "Copies everything into a folder of the day in Variable `cohabit_backups`. One that is there stays; what a "
        "killed run left is begun anew.",
        240,
    ),
    "verify": Command(
        ("admin", "backup", "verify", BACKUP),
        "Reads all of the backup and compares it with what was written. When it fails, the disk changed what it was "
        "given: remove that folder, look at the disk, and clear both tasks.",
        240,
        retries=1,
    ),
}

SEARCHING = {
    "search": Command(
        ("model", "tune", "--candidates", CANDIDATES, "--out", f"{REPORTS}/search-{NEXT_DAY}.json"),
        "Tries settings of the trainer, and tells whether any beats the default beyond luck. Changes nothing: read the "
        "last line, or the file in Variable `cohabit_reports`.",
        600,
        HEAVY,
        retries=1,
    ),
}

BILLING = {
    "meter": Command(
        ("bill", "meter", "--from", FIRST, "--to", NEXT_FIRST, "--whole"),
        "Meters the month again, so that late usage and bills count.",
        600,
        HEAVY,
    ),
    "judge": Command(
        ("bill", "judge", "--from", FIRST, "--to", NEXT_FIRST),
        "Judges the month again, with the labels that came late.",
        600,
        HEAVY,
    ),
    "draft": Command(
        ("bill", "close", "--month", MONTH, "--renew"),
        "Drafts what the month is to be closed with, and prints it with its name. A draft that nobody confirmed makes "
        "way for this one; a closed month stays closed. When it fails it says what is missing: a price book, a bill of "
        "a pool, an hour.",
        240,
        HEAVY,
    ),
    "export": Command(
        ("bill", "focus", "--month", MONTH, "--out", f"{REPORTS}/focus-{MONTH}.csv"),
        "Writes the closed month as FOCUS 1.2 into Variable `cohabit_reports`.",
        240,
    ),
}
NOT_CLOSED = 3
"""Exit code of `cohabit bill closed` while a person is waited for."""
APPROVED = Command(
    ("bill", "closed", "--month", MONTH),
    "Asks again and again whether **a person** has looked at the draft and closed the month, by "
    "`cohabit bill close --month … --confirm …` or on the month's page. No DAG does that. Gives up after three weeks, "
    "and fails at once where that cannot be told, as without a store: clear it to go on waiting.",
    10,
)

RETENTION = {
    "expire_raw": Command(
        ("lake", "expire", "--before", NEXT_DAY, "--keep-days", KEPT_RAW_DAYS, "--yes", *RAW),
        "Lets what was landed go that is older than Variable `cohabit_keep_raw_days` (100). A month cannot be metered "
        "again afterwards. Fails, and lets nothing go, where that is no number of days from 30 on.",
        120,
    ),
    "expire": Command(
        ("lake", "expire", "--before", NEXT_DAY, "--keep-days", KEPT_DAYS, "--yes"),
        "Lets all rows go that are older than Variable `cohabit_keep_days` (800), but those of nodes and placements. A "
        "month can be neither billed nor corrected afterwards. Fails, and lets nothing go, where that is no number of "
        "days from 30 on.",
        120,
    ),
}
