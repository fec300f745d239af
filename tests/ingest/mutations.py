"""Mutated messages: good ones with bytes, numbers, texts and structure changed, as a broken sender would.

`python -m tests.ingest.mutations MESSAGES` decodes so many over all formats, and prints what became of them.
"""

import random
import resource
import sys
from collections import Counter

import pyarrow as pa

from ingest.decode.contract import REASONS, Decoded, rows_schema
from ingest.decode.formats.format_registry import decoder_named
from ingest.schema.tables import SAMPLES
from tests.ingest.foreign import context
from tests.ingest.mutate import MUTATIONS
from tests.ingest.samples_of import MESSAGES

BATCH = 500
MAX_KIB = 1 << 20
"""Memory a run may take at most: 1 GiB, most of it Arrow's."""


def mutated(name: str, count: int, seed: int) -> list[bytes]:
    """So many messages of a format, one in ten as it was."""
    rng = random.Random(f"{name} {seed}")
    good = MESSAGES[name]
    return [
        message if rng.random() < 0.1 else rng.choice(MUTATIONS)(message, rng)
        for message in (rng.choice(good) for _ in range(count))
    ]


def check(messages: list[bytes], result: Decoded) -> None:
    """What holds of every batch, however broken."""
    result.rows.validate(full=True)
    assert result.rows.schema == rows_schema(SAMPLES)
    assert set(result.rejects["reason"].to_pylist()) <= set(REASONS)
    numbers = result.rows["message"].to_pylist()
    assert numbers == sorted(numbers)
    items = list(zip(result.rejects["message"].to_pylist(), result.rejects["item"].to_pylist(), strict=True))
    assert len(set(items)) == len(items)
    if not result.unknown_fields:
        assert {*numbers, *result.rejects["message"].to_pylist()} == set(range(len(messages)))


def run(total: int) -> None:
    """Decode so many mutated messages over all formats; print counts by format and reason."""
    names = list(MESSAGES)
    for name in names:
        decode, found, done = decoder_named(name), Counter[str](), 0
        while done < total // len(names):
            messages = mutated(name, BATCH, done)
            result = decode(pa.array(messages, pa.binary()), context(len(messages)))
            check(messages, result)
            found.update(result.rejects["reason"].to_pylist())
            found.update({"rows": result.rows.num_rows, "not landed": sum(result.unknown_fields.values())})
            done += len(messages)
        counts = ", ".join(f"{reason} {count:,}" for reason, count in sorted(found.items()))
        sys.stdout.write(f"{name}: {done:,} messages; {counts}\n")
        peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        sys.stdout.write(f"  at most {peak_kib >> 10} MiB so far\n")
        sys.stdout.flush()
        assert peak_kib < MAX_KIB, f"{peak_kib} KiB"


if __name__ == "__main__":
    run(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
