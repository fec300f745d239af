"""Write data_samples/measured/*.log from the CSVs beside them: python scripts/measured_records.py."""

from pathlib import Path

import pyarrow as pa
from pyarrow import csv

from ingest.files import Message, TopicWriter
from ingest.traces.measured import records

FOLDER = Path(__file__).parent.parent / "data_samples" / "measured"


def main() -> None:
    """Replace the stream files."""
    options = csv.ConvertOptions(column_types={"level": pa.string()})
    windows = csv.read_csv(FOLDER / "windows.csv")
    members = csv.read_csv(FOLDER / "members.csv", convert_options=options)
    for old in FOLDER.glob("*.log"):
        old.unlink()
    for message in records(windows, members):
        TopicWriter(FOLDER, message.topic).write([Message(message.arrived_ms, message.key, message.value)])


if __name__ == "__main__":
    main()
