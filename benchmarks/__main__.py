"""`python -m benchmarks NAME`; `--help` lists the names."""

from benchmarks import decode, export, features, interference, laws, measured, sampling, scoring, serving, stream
from benchmarks.runner import main

BENCHMARKS = (
    decode.BENCHMARK,
    export.BENCHMARK,
    features.BENCHMARK,
    interference.BENCHMARK,
    laws.BENCHMARK,
    measured.BENCHMARK,
    sampling.BENCHMARK,
    scoring.BENCHMARK,
    serving.BENCHMARK,
    stream.BENCHMARK,
)

if __name__ == "__main__":
    main(BENCHMARKS)
