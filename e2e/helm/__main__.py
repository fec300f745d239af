"""`python -m e2e.helm`: the chart by the released Helm, as kustomize and as Kubernetes' schemas have it, and installed.

Exit 1 on the first step that fails. `--write` keeps what Helm renders for the tests, which have no Helm.
"""

import signal
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

import yaml

from cohabit.terminal.console import console, show_error
from e2e.helm import chart
from e2e.helm.binaries import tools
from e2e.helm.errors import Differs
from e2e.helm.release import lived
from e2e.helm.schemas import FOREIGN, VERSIONS, conforms, laid_out, schema_name
from e2e.kube.binaries import binaries
from e2e.kube.errors import E2eError
from e2e.kustomize.binary import kustomize
from e2e.kustomize.objects import built, differences

FOLDERS = {"default": "base", "example": "example"}
"""Folder of deploy/kubernetes that a case is equal to."""


def main(words: Sequence[str] | None = None) -> int:
    """Run everything; the exit code."""
    arguments = _parser().parse_args(words)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _leave)
    try:
        _run(arguments)
    except E2eError as error:
        show_error(error)
        return 1
    return 0


def _run(arguments: Namespace) -> None:
    programs = tools(_say)
    _lint(programs / "helm")
    texts = {case: chart.rendered(programs / "helm", case) for case in chart.CASES}
    with tempfile.TemporaryDirectory(prefix="cohabit-e2e-helm-") as name:
        folder = Path(name)
        _validate(programs / "kubeconform", folder, texts)
        _compare(texts)
        _golden(texts, write=arguments.write)
        if not arguments.render_only:
            lived(folder, binaries(_say), programs / "helm", _say)


def _lint(helm: Path) -> None:
    for case in chart.CASES:
        chart.helm(helm, "lint", "--strict", chart.CHART, "--values", chart.values_of(case))
    _say(f"lint: {len(chart.CASES)} files of values, strict, 0 problems")


def _validate(kubeconform: Path, folder: Path, texts: dict[str, str]) -> None:
    manifests = [one for text in texts.values() for one in yaml.safe_load_all(text) if one]
    names = {schema_name(one) for one in manifests if one["kind"] not in FOREIGN.split(",")}
    for version in VERSIONS:
        laid_out(folder, version, names)
        valid = sum(conforms(kubeconform, folder, version, text) for text in texts.values())
        _say(f"kubeconform {version}: {valid} objects of {len(texts)} files of values are valid, strictly")


def _compare(texts: dict[str, str]) -> None:
    program = kustomize(_say)
    for case, name in FOLDERS.items():
        ours = chart.objects(texts[case])
        theirs = [chart.plain(one) for one in built(program, chart.DEPLOY / "kubernetes" / name)]
        wanted = [one for one in theirs if one["kind"] != "Namespace"]
        if found := list(differences(ours, wanted)):
            raise Differs(f"chart with values {case} and kustomize of {name}", found)
        _say(f"kustomize {name}: {len(ours)} objects, {chart.fields(ours):,} fields, 0 differences")


def _golden(texts: dict[str, str], *, write: bool) -> None:
    for case in chart.GOLDEN:
        if write:
            chart.keep(case, texts[case])
        elif chart.kept(case).read_text() != chart.golden(texts[case]):
            raise Differs(str(chart.kept(case)), ["not what Helm renders: run `make e2e-helm WRITE=1`"])
    _say(f"golden: {len(chart.GOLDEN)} files {'written' if write else 'as rendered'}")


def _say(line: str) -> None:
    console.print(line, markup=False, highlight=False)


def _parser() -> ArgumentParser:
    parser = ArgumentParser("python -m e2e.helm", description="the chart, by the released Helm")
    parser.add_argument("--write", action="store_true", help="keep what Helm renders for the tests")
    parser.add_argument("--render-only", action="store_true", help="do not install anything")
    return parser


def _leave(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
