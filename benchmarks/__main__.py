"""`python -m benchmarks NAME`; `--help` lists the names."""

from benchmarks import (
    billing,
    closed_loop,
    decode,
    diagnosis,
    drill,
    export,
    faults,
    features,
    herd,
    interference,
    lake,
    laws,
    measured,
    plans,
    pricing,
    sampling,
    scoring,
    serving,
    stream,
    transfers,
    worth,
)
from benchmarks.reassign import plan_scale, roadef_run, tianchi_run
from benchmarks.runner import main

BENCHMARKS = (
    roadef_run.CHECK_ROADEF,
    tianchi_run.CHECK_TIANCHI,
    billing.BENCHMARK,
    closed_loop.BENCHMARK,
    decode.BENCHMARK,
    diagnosis.BENCHMARK,
    drill.BENCHMARK,
    export.BENCHMARK,
    faults.BENCHMARK,
    features.BENCHMARK,
    herd.BENCHMARK,
    interference.BENCHMARK,
    lake.BENCHMARK,
    laws.BENCHMARK,
    measured.BENCHMARK,
    plan_scale.PLAN_SCALE,
    plans.BENCHMARK,
    pricing.BENCHMARK,
    roadef_run.ROADEF,
    sampling.BENCHMARK,
    scoring.BENCHMARK,
    serving.BENCHMARK,
    stream.BENCHMARK,
    transfers.BENCHMARK,
    tianchi_run.TIANCHI,
    worth.BENCHMARK,
)

if __name__ == "__main__":
    main(BENCHMARKS)
