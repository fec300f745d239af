"""Write data_samples/measured/*.log from the CSVs next to them: python scripts/measured_records.py [FOLDER].

Without FOLDER the shipped files are replaced.
"""

import sys
from pathlib import Path

import pyarrow as pa
from pyarrow import csv

from ingest.kafka_io.stream_files import Message, TopicWriter
from ingest.traces.measured import records

FOLDER = Path(__file__).parent.parent / "data_samples" / "measured"


def main(target: Path) -> None:
    """Replace the stream files in a folder."""
    options = csv.ConvertOptions(column_types={"level": pa.string()})
    windows = csv.read_csv(FOLDER / "windows.csv")
    members = csv.read_csv(FOLDER / "members.csv", convert_options=options)
    for old in target.glob("*.log"):
        old.unlink()
    for message in records(windows, members):
        TopicWriter(target, message.topic).write([Message(message.arrived_ms, message.key, message.value)])


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else FOLDER)
