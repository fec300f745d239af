"""`python -m benchmarks NAME`; `--help` lists the names."""

import sys
from collections.abc import Sequence
from importlib import import_module

from benchmarks.runner import Benchmark, main

PLACES = {
    "check-roadef": "reassign.roadef_run:CHECK_ROADEF",
    "check-tianchi": "reassign.tianchi_run:CHECK_TIANCHI",
    "admission": "admission.harm_ratio:BENCHMARK",
    "billing": "billing:BENCHMARK",
    "closed-loop": "closed_loop:BENCHMARK",
    "decode": "decode:BENCHMARK",
    "diagnosis": "diagnosis:BENCHMARK",
    "drill": "drill:BENCHMARK",
    "export": "export:BENCHMARK",
    "faults": "faults:BENCHMARK",
    "features": "features:BENCHMARK",
    "gang": "gang:BENCHMARK",
    "headroom": "headroom:BENCHMARK",
    "headroom-loop": "headroom_loop:BENCHMARK",
    "herd": "herd:BENCHMARK",
    "interference": "interference:BENCHMARK",
    "lake": "lake:BENCHMARK",
    "laws": "laws:BENCHMARK",
    "measured": "measured:BENCHMARK",
    "stock": "stock:BENCHMARK",
    "days-to-full": "demand.days:BENCHMARK",
    "purchase-forecast": "demand.forecast:BENCHMARK",
    "plan-scale": "reassign.plan_scale:PLAN_SCALE",
    "plans": "plans:BENCHMARK",
    "pricing": "pricing:BENCHMARK",
    "purchase": "purchase:BENCHMARK",
    "purchase-orders": "purchase_orders:BENCHMARK",
    "purchase-risk": "purchase_risk:BENCHMARK",
    "rightsize": "rightsize:BENCHMARK",
    "roadef": "reassign.roadef_run:ROADEF",
    "sampling": "sampling:BENCHMARK",
    "scoring": "scoring:BENCHMARK",
    "serving": "serving:BENCHMARK",
    "stream": "stream:BENCHMARK",
    "transfers": "transfers:BENCHMARK",
    "tianchi": "reassign.tianchi_run:TIANCHI",
    "worth": "worth:BENCHMARK",
}
"""Module and variable of each benchmark, by its name."""


def asked_for(words: Sequence[str]) -> list[Benchmark]:
    """The benchmark that is named first, without loading the others; all, to list them, where none is."""
    names = words[:1] if words and words[0] in PLACES else PLACES
    return [_at(PLACES[name]) for name in names]


def _at(place: str) -> Benchmark:
    module, variable = place.split(":")
    found: Benchmark = getattr(import_module(f"benchmarks.{module}"), variable)
    return found


if __name__ == "__main__":
    main(asked_for(sys.argv[1:]))
