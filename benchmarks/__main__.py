"""`python -m benchmarks NAME`; `--help` lists the names."""

from benchmarks import decode, measured, scoring
from benchmarks.runner import main

BENCHMARKS = (decode.BENCHMARK, measured.BENCHMARK, scoring.BENCHMARK)

if __name__ == "__main__":
    main(BENCHMARKS)
