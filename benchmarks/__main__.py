"""`python -m benchmarks NAME`; `--help` lists the names."""

from benchmarks import scoring
from benchmarks.runner import main

BENCHMARKS = (scoring.BENCHMARK,)

if __name__ == "__main__":
    main(BENCHMARKS)
