"""The benchmark runner: its list, its table, and the one line of JSON that programs read."""

import json
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.__main__ import PLACES, asked_for
from benchmarks.runner import TOP, Benchmark, Result, main, measure, parser_of
from benchmarks.serving import cpu_s

pytestmark = pytest.mark.slow

GOLDEN = Path(__file__).parents[1] / "golden" / "benchmark-lines.jsonl"
DECISION = (
    "programs read this line: changing its form needs a decision record in docs/decisions/, then a new "
    "tests/golden/benchmark-lines.jsonl"
)


class Drawn:
    """Gives other results at every run: the next of a list."""

    def __init__(self, *results: Result) -> None:
        self.results = list(results)

    def __call__(self, _: Namespace, __: np.random.Generator) -> Result:
        return self.results.pop(0)


def flat(*values: float) -> Drawn:
    return Drawn(*({"ours": {"records_s": value, "lag_ms": 2 * value}} for value in values))


def by_method(*values: float) -> Drawn:
    return Drawn(*({"sum": {"ms": 9.0}, "constant": {"ms": 1.0}, "ours": {"ms": value}} for value in values))


CASES = [
    Benchmark("flat", "figures alone", flat(4.0, 6.0, 3.0)),
    Benchmark("methods", "figures beside baselines", by_method(4.0, 6.0, 3.0)),
    Benchmark("once", "one run, beside a baseline", by_method(5.0), runs=1),
    Benchmark(
        "own", "with its own interval", Drawn({"ours": {"r": 0.5, "r_lo": 0.4, "r_hi": 0.6}, "b": {"r": 0.1}}), runs=1
    ),
    Benchmark(
        "top", "with a figure of no method", Drawn({TOP: {"gap": 0.6}, "b": {"r": 1.0}, "ours": {"r": 0.5}}), runs=1
    ),
]


def test_golden_lines(capsys: pytest.CaptureFixture[str]) -> None:
    lines = []
    for case in CASES:
        main([case], [case.name])
        lines.append(capsys.readouterr().out.splitlines()[-1])

    assert lines == GOLDEN.read_text().splitlines(), DECISION


def test_the_table_comes_before_the_line(capsys: pytest.CaptureFixture[str]) -> None:
    case = Benchmark("methods", "figures beside baselines", by_method(4.0, 6.0, 3.0))

    main([case], ["methods"])

    shown = capsys.readouterr().out.splitlines()
    assert "methods: figures beside baselines" in shown[0]
    assert any("4 (3 to 6)" in line for line in shown[:-1])
    assert json.loads(shown[-1])["ours"]["ms"] == 4.0


def test_every_run_has_randomness_of_its_own_and_the_same_every_time() -> None:
    def drawn(_: Namespace, rng: np.random.Generator) -> Result:
        return {"ours": {"draw": float(rng.random())}}

    first, again = (measure(Benchmark("x", "x", drawn), Namespace()) for _ in range(2))

    assert first == again
    assert first["ours"]["draw_lo"] < first["ours"]["draw_hi"]


def test_a_figure_that_is_not_finite_is_an_error() -> None:
    with pytest.raises(ValueError, match="JSON"):
        main([Benchmark("bad", "not finite", Drawn({"ours": {"r": float("nan")}}), runs=1)], ["bad"])


def test_options_reach_the_benchmark(capsys: pytest.CaptureFixture[str]) -> None:
    def echo(arguments: Namespace, _: np.random.Generator) -> Result:
        return {"ours": {"size": arguments.size}}

    def add(parser: ArgumentParser) -> None:
        parser.add_argument("--size", type=int)

    main([Benchmark("sized", "with an option", echo, runs=1, add_arguments=add)], ["sized", "--size", "7"])

    assert capsys.readouterr().out.splitlines()[-1] == '{"size": 7}'


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "benchmarks", *arguments], capture_output=True, text=True, check=False)


def test_help_lists_every_benchmark_by_the_name_that_it_is_asked_for_with() -> None:
    shown = "".join(parser_of(asked_for([])).format_help().split())

    for name in PLACES:
        [asked] = asked_for([name, "--anything"])
        assert asked.name == name
        assert "".join(f"{name} {asked.summary}".split()) in shown


def test_an_unknown_name_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        main(asked_for(["soring"]), ["soring"])

    assert refused.value.code == 2
    assert "'scoring'" in capsys.readouterr().err


@pytest.mark.long
def test_scoring_ends_with_times_beside_the_plain_sum() -> None:
    done = run("scoring", "--requests", "2", "--trees", "5", "--residents", "3")

    assert done.returncode == 0, done.stderr
    line = json.loads(done.stdout.splitlines()[-1])
    assert list(line) == ["ours", "sum_of_pressure"]
    assert {"ms_100", "ms_100_lo", "ms_100_hi", "ms_500", "times_sum_500"} <= line["ours"].keys()
    assert all(value > 0 for value in line["ours"].values())


@pytest.mark.long
def test_serving_ends_with_waits_beside_an_echo_and_what_the_table_costs() -> None:
    size = ("--nodes", "60", "--residents", "3", "--names", "10,20", "--trees", "10")
    done = run("serving", *size, "--requests", "3", "--watch", "1")

    assert done.returncode == 0, done.stderr
    line = json.loads(done.stdout.splitlines()[-1])
    assert line.keys() == {"ours", "echo", "memo", "fragments", "twin"}
    told = {"p50_vs_echo_10", "p50_vs_echo_20", "p99_ms_20", "refresh_cores", "table_regret", "memo_hit_frac", "rss_mb"}
    assert told <= line["ours"].keys()
    assert line["ours"]["table_regret"] < 0.05


def test_cpu_time_is_that_of_the_first_thread_and_of_all_others() -> None:
    """Another process burns a quarter of a second in its second thread when it is told to, and says so."""
    burn = "from time import *\ninput()\nwhile thread_time() < 0.25: pass\nprint(flush=True)\nsleep(60)"
    code = f"from threading import *\nThread(target=exec, args=[{burn!r}]).start()"
    held = f"{code}\nEvent().wait()"
    with subprocess.Popen([sys.executable, "-c", held], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        before = cpu_s(process.pid)
        process.stdin.write(b"\n")
        process.stdin.flush()
        process.stdout.readline()
        first, others = cpu_s(process.pid) - before
        process.kill()

    assert others > 0.2
    assert first < 0.2


@pytest.mark.long
def test_whatever_goes_wrong_a_scheduler_is_answered_whole() -> None:
    done = run("faults", "--nodes", "520", "--seconds", "1")

    assert done.returncode == 0, done.stderr
    line = json.loads(done.stdout.splitlines()[-1])
    faults = {name.removesuffix("_not_200") for name in line if name.endswith("_not_200")}
    assert {"reload", "bad_snapshot", "bad_bundle", "table_killed", "clock_ahead", "overload", "sigterm"} <= faults
    assert {"wrong_catalogue", "wrong_version", "slow_disk"} <= faults
    assert {line[f"{fault}_not_200"] for fault in faults} == {0.0}
    assert all(line[f"{fault}_per_s"] > 0 for fault in faults)
    for foreign in ("wrong_catalogue", "wrong_version"):
        assert line[f"{foreign}_kept"] > 0, "what was loaded answers, and says why"
    assert line["sigterm_exit_code"] == 0


def test_decode_ends_with_the_figures_of_each_format_beside_its_bound() -> None:
    done = run("decode", "--samples", "2000", "--rounds", "1")

    assert done.returncode == 0, done.stderr
    line = json.loads(done.stdout.splitlines()[-1])
    assert {"ours", "otlp-proto", "otlp-json", "cadvisor", "prom-text", "prom-adapter", "telegraf-json"} < line.keys()
    for figures in line.values():
        assert {"fraction_of_bound", "samples_per_cpu_s", "processes_for_250000_samples_s"} <= figures.keys()
        assert all(value > 0 for value in figures.values())


@pytest.mark.long
def test_export_ends_with_ratios_to_lightgbm_and_no_row_that_differs() -> None:
    done = run("export", "--trees", "8", "--turns", "1")

    assert done.returncode == 0, done.stderr
    line = json.loads(done.stdout.splitlines()[-1])
    assert line.pop("differing_rows") == line.pop("kernel_differing_rows") == 0
    ratios = {f"{ours}_vs_lightgbm_{size}" for ours in ("onnx", "kernel") for size in (1, 100, 500, 5000)}
    assert ratios | {"tree_shap_vs_pred_contrib", "path_us_per_row"} <= line.keys()
    assert all(value > 0 for value in line.values())


@pytest.mark.long
def test_headroom_loop_ends_with_ratios_of_each_law_and_the_worst() -> None:
    done = run("headroom-loop", "--laws", "threshold", "--seeds", "1", "--hours", "1", "--nodes", "8", "--jobs", "1")

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert {"be_core_hours", "ls_violation_minutes", "be_ratio", "be_ratio_lo"} <= found["threshold"].keys()
    assert found["be_ratio"] == found["threshold"]["be_ratio"]
    assert "container-intervals beyond" in done.stderr
