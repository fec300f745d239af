"""`python -m benchmarks NAME`; `--help` lists the names."""

from benchmarks import decode, export, features, laws, measured, scoring, stream
from benchmarks.runner import main

BENCHMARKS = (
    decode.BENCHMARK,
    export.BENCHMARK,
    features.BENCHMARK,
    laws.BENCHMARK,
    measured.BENCHMARK,
    scoring.BENCHMARK,
    stream.BENCHMARK,
)

if __name__ == "__main__":
    main(BENCHMARKS)
