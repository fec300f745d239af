"""`python -m benchmarks NAME`; `--help` lists the names."""

from benchmarks import measured, scoring
from benchmarks.runner import main

BENCHMARKS = (measured.BENCHMARK, scoring.BENCHMARK)

if __name__ == "__main__":
    main(BENCHMARKS)
