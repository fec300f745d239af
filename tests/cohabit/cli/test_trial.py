"""`cohabit trial`: a real broker, whose address a Collector could have, and the commands behind it."""

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from time import monotonic, sleep

import pytest

from cohabit.cli.dev.trial import address
from cohabit.config.errors import CohabitError
from features.schema.tables import TABLES
from ingest.devkafka.broker import free_ports
from ingest.kafka_io.replay import Sender
from ingest.kafka_io.stream_files import Message
from ingest.lake.tables import Lake
from ingest.schema.errors import IngestError
from tests.ingest.foreign import TS
from tests.ingest.samples_of import proto

LIMIT_S = 60.0
ARRIVED_MS = TS * 1000


def samples(lake: Path) -> int:
    try:
        return Lake.open(lake, TABLES).count("samples") if lake.is_dir() else 0
    except IngestError:  # not there yet
        return 0


def test_what_a_collector_sends_lands_and_all_that_was_started_ends_with_it(tmp_path: Path) -> None:
    port = free_ports(1)[0]
    at, folder = f"127.0.0.1:{port}", str(tmp_path / "trial")
    words = ["trial", "--no-watch", "--listen", at, "--every", "5", "--folder", folder]
    environment = {**os.environ, "COHABIT_LAKE": str(tmp_path / "lake"), "COHABIT_KAFKA__COMMIT_EVERY_S": "1"}
    command = [sys.executable, "-m", "cohabit", *words]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            line = next(line for line in process.stdout if "Kafka for the Collector" in line)
            assert f"brokers 127.0.0.1:{port}, topic otlp_metrics, encoding otlp_proto" in line
            with closing(Sender(f"127.0.0.1:{port}")) as sender:
                sender.send("otlp_metrics", Message(ARRIVED_MS, b"", proto()))
            until = monotonic() + LIMIT_S
            while samples(tmp_path / "lake") < 4 and monotonic() < until:
                sleep(0.5)
        finally:
            process.terminate()
        assert process.wait(LIMIT_S) == 0
    assert samples(tmp_path / "lake") == 4
    assert str(tmp_path) not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("listen", ["9092", "host:", ":9092", "host:x", "host:70000"])
def test_an_address_that_is_none_is_refused(listen: str) -> None:
    with pytest.raises(CohabitError, match="write HOST:PORT"):
        address(listen)
