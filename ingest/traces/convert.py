"""Import a public trace: its CSV files in, messages out, in bounded memory. An edge."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc

from ingest.kafka_io.sender import Outlet
from ingest.kafka_io.stream_files import Message, in_order
from ingest.schema.errors import IngestError
from ingest.traces.alibaba2018 import ALIBABA_2018
from ingest.traces.form import Form, Origin, TraceFile
from ingest.traces.gentd26 import GENTD26
from ingest.traces.gpu2023 import GPU_2023
from ingest.traces.trace_messages import broken_lines, messages

FORMS = {form.name: form for form in (ALIBABA_2018, GENTD26, GPU_2023)}
SUFFIXES = (".csv", ".csv.gz")
ANY_BYTES = "latin-1"
"""Traces are ASCII; an encoding that refuses no byte lets a broken line be rejected like any other."""
BLOCK_BYTES = 1 << 19
"""So much of each file is held at once; as records it takes about fifty times that."""
REPORT_EVERY = 1000
Progress = Callable[[int], None]
"""Called with how many messages were made so far."""


def trace_files(form: Form, source: Path) -> dict[Path, TraceFile]:
    """Files of a trace that can be imported, and how.

    Args:
        form: which trace.
        source: its folder, or one of its files.

    Raises:
        IngestError: there is none.
    """
    candidates = sorted(source.iterdir()) if source.is_dir() else [source]
    found = {
        path: how
        for path in candidates
        if (how := form.files(path.name.partition(".")[0])) and path.name.endswith(SUFFIXES)
    }
    if not found or not all(path.is_file() for path in found):
        raise IngestError(
            f"{source} holds nothing of trace {form.name}: expected is {form.expected}, each also as .csv.gz; "
            "docs/traces.md says where to get it"
        )
    return found


def import_trace(files: dict[Path, TraceFile], outlet: Outlet, origin: Origin, progress: Progress) -> int:
    """Send every row of a trace's files, merged by time as far as each file is in order.

    Rows that are no row, or lack what they need, are sent too: ingest rejects them with their reason.

    Args:
        files: from `trace_files`.
        outlet: where messages go.
        origin: cluster and epoch.
        progress: called with how many messages were made.

    Returns:
        How many messages were sent and are safe.

    Raises:
        IngestError: a file is no CSV, or lacks a column.
    """
    count = 0
    for topic, message in in_order((how.topic.name, file_messages(p, how, origin)) for p, how in files.items()):
        outlet.send(topic, message)
        count += 1
        if count % REPORT_EVERY == 0:
            progress(count)
    outlet.flush()
    progress(count)
    return count


def file_messages(path: Path, how: TraceFile, origin: Origin) -> Iterator[Message]:
    """Messages of one file, block by block.

    Raises:
        IngestError: it is no CSV, or lacks a column.
    """
    broken: list[str] = []
    for block in _blocks(path, how, broken):
        yield from messages(how.kernel(block, origin), how.topic, origin.epoch_s)
        yield from broken_lines(broken, how.topic, origin.cluster, origin.epoch_s)
        broken.clear()


def _blocks(path: Path, how: TraceFile, broken: list[str]) -> Iterator[pa.Table]:
    """Blocks of a file, every column text; lines with another number of cells go to `broken`."""

    def aside(row: pc.InvalidRow) -> str:
        broken.append(row.text)
        return "skip"

    with pa.input_stream(str(path), compression="detect") as stream:
        try:
            names = _header(path, how)
            reader = pc.open_csv(
                stream,
                pc.ReadOptions(
                    use_threads=False,
                    block_size=BLOCK_BYTES,
                    column_names=names,
                    skip_rows=how.header,
                    encoding=ANY_BYTES,
                ),
                pc.ParseOptions(invalid_row_handler=aside),
                pc.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False),
            )
            yield from (pa.Table.from_batches([batch]).combine_chunks() for batch in reader)
        except (pa.ArrowInvalid, OSError) as error:
            raise _unreadable_trace(path, str(error)) from error


def _header(path: Path, how: TraceFile) -> Sequence[str]:
    """Names of a file's columns in their order."""
    if not how.header:
        return how.columns
    with pa.input_stream(str(path), compression="detect") as stream:
        line = stream.read(1 << 16).partition(b"\n")[0].decode(errors="replace")
    names = [name.strip().strip('"') for name in line.split(",")]
    if missing := set(how.columns) - set(names):
        raise _unreadable_trace(path, f"its first line names no column {', '.join(sorted(missing))}")
    if twice := [name for name in names if name and names.count(name) > 1]:
        raise _unreadable_trace(path, f"its first line names column {twice[0][:40]!r} twice: leave one")
    return names


def _unreadable_trace(path: Path, reason: str) -> IngestError:
    return IngestError(f"{path} cannot be imported ({reason}): fetch it again, or see docs/traces.md for its form")
