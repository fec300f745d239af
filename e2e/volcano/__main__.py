"""`python -m e2e.volcano`: the released clients of Volcano and kube-scheduler, and Volcano's scheduler, ask an advisor.

All of it by each release of Volcano in `clients.VERSIONS`.

Exit 1 where what they send is not what tests/golden has, where they read a reply otherwise than it was meant, or where
Volcano's scheduler does not do what docs/scheduler.md says.
"""

import re
import signal
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.serving import CLASSES, going
from cohabit.terminal.console import console, show_error
from e2e.kube.advisor import Advisor, advisor, prepared
from e2e.kube.control_plane import PAGE
from e2e.kube.errors import E2eError
from e2e.kube.processes import free_ports
from e2e.volcano.clients import VERSIONS, Placed, Reply, built, placed, requests, understood
from e2e.volcano.replies import BROKEN, OFFERED, gathered, holds, twin_agrees

GOLDEN = Path(__file__).parents[2] / "tests" / "golden"
RESIDENTS, SEED = 20, 0
Verdict = tuple[bool, str]


def main(words: Sequence[str] | None = None) -> int:
    """Run everything; the exit code."""
    arguments = _parser().parse_args(words)
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        programs = {release: built(release, console.print) for release in arguments.volcano or VERSIONS}
        if arguments.golden:
            return _write_golden(programs)
        verdicts = list(_verdicts(programs, arguments))
    except E2eError as error:
        show_error(error)
        return 1
    return 0 if all(well for well, _ in verdicts) else 1


def _verdicts(programs: Mapping[str, Path], arguments: Namespace) -> Iterator[Verdict]:
    with tempfile.TemporaryDirectory(prefix="cohabit-e2e-volcano-") as name:
        folder = Path(name)
        changing = prepared(folder, arguments.nodes, RESIDENTS)
        [port] = free_ports(1)
        with going(changing), advisor(folder, port, "advisor", {"COHABIT_ADVISOR__FILTER": "zero"}) as asked:
            asked.warm(changing.view.nodes)
            for release, program in programs.items():
                verdicts = _advised(release, program, asked, changing.view.nodes, arguments)
                yield from (_told(release, verdict) for verdict in verdicts)
        for release, program in programs.items():
            verdicts = _alone(program, changing.view.nodes, arguments.pods)
            yield from (_told(release, verdict) for verdict in verdicts)


def _told(release: str, verdict: Verdict) -> Verdict:
    well, said = verdict
    console.print(f"{'ok' if well else 'FAILED':<8}Volcano {release}: {said}", soft_wrap=True, markup=False)
    return verdict


def golden(name: str, release: str) -> Path:
    """The file of a request; a later release has its own where it sends something else than the oldest one."""
    own = GOLDEN / name.replace("volcano-", f"volcano-{release}-")
    return own if own.exists() else GOLDEN / name


def _same_requests(release: str, program: Path) -> Verdict:
    """What the clients send is what the tests send."""
    with tempfile.TemporaryDirectory() as name:
        sent = requests(program, Path(name))
    differ = [name for name, body in sent.items() if golden(name, release).read_bytes() != body]
    return not differ, f"{len(sent)} requests are those of tests/golden" + "".join(f"; not {name}" for name in differ)


def _replies_are_read(program: Path, asked: Advisor, nodes: Sequence[str], count: int) -> Verdict:
    """All clients read every reply as it was meant, and the twin reads replies, and broken ones, as they do."""
    ours = gathered(asked.port, nodes, count, np.random.default_rng(SEED))
    broken = [Reply(client, OFFERED, text.encode()) for client, texts in BROKEN.items() for text in texts]
    said = understood(program, [*ours, *broken])
    wrong = [one for one, of in zip(ours, said[:count], strict=True) if not holds(one.client, one.offered, of)]
    astray = [one for one, of in zip([*ours, *broken], said, strict=True) if not twin_agrees(one, of)]
    refused = sum(bool(of.passed and of.passed.refused) for of in said[:count])
    first = "".join(f"; for instance {one}" for one in [*wrong, *astray][:1])
    return not wrong and not astray, (
        f"of {count:,} replies the clients read {count - len(wrong):,} as meant; of those and {len(broken)} broken "
        f"ones the tests' own reader reads {len(astray)} otherwise{first}; the filter refuses a node in {refused:,}"
    )


def _advised(
    release: str, program: Path, asked: Advisor, nodes: Sequence[str], arguments: Namespace
) -> Iterator[Verdict]:
    """With the advisor at work."""
    yield _same_requests(release, program)
    yield _replies_are_read(program, asked, nodes, arguments.replies)
    pods = arguments.pods
    text, apps = configuration(PAGE.read_text(), asked.port), _apps(pods)
    there = placed(program, text, nodes, apps)
    yield _all_placed("with the page's configuration", there, pods)
    alone = placed(program, _without(text, "nodeorder"), nodes, apps)
    yield _all_placed("with the extender as the only scorer", alone, pods)
    best = [pod for pod, node in alone.node_of.items() if alone.scores[pod][node] == max(alone.scores[pod].values())]
    yield len(best) == pods, f"{len(best):,} of these {pods:,} pods went to a node of the highest score"


def _alone(program: Path, nodes: Sequence[str], pods: int) -> Iterator[Verdict]:
    """Without a running advisor."""
    [port] = free_ports(1)
    text, apps = configuration(PAGE.read_text(), port), _apps(pods)
    there = placed(program, text, nodes, apps)
    yield len(there.node_of) == pods, f"without the advisor {len(there.node_of):,} of {pods:,} pods were placed"
    strict = placed(program, text.replace("ignorable: true", "ignorable: false"), nodes, apps)
    end = "the scheduler panicked" if strict.panicked else f"{len(strict.node_of):,} of {pods:,} pods were placed"
    yield not strict.node_of, f"without the advisor and with extender.ignorable: false {end}, as the page says"


def _all_placed(how: str, there: Placed, pods: int) -> Verdict:
    scored = sum(scores.keys() == set(there.offered[pod]) for pod, scores in there.scores.items())
    most = max(map(len, there.offered.values()), default=0)
    said = f"{scored:,} with a score for every node that was offered, up to {most}"
    return len(there.node_of) == scored == pods, f"{how} {len(there.node_of):,} of {pods:,} pods were placed, {said}"


def configuration(page: str, port: int) -> str:
    """The scheduler's configuration that the page advises, with an advisor at another port."""
    [text, *_] = [block for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "extender.urlPrefix" in block]
    return re.sub(r"(extender\.urlPrefix: http://127\.0\.0\.1):\d+", rf"\1:{port}", str(text))


def _without(text: str, plugin: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if line.strip() != f"- name: {plugin}")


def _apps(pods: int) -> dict[str, str]:
    return {f"pod-{number:05}": CLASSES[number % len(CLASSES)] for number in range(pods)}


def _write_golden(programs: Mapping[str, Path]) -> int:
    oldest = next(iter(VERSIONS))
    for release, program in programs.items():
        with tempfile.TemporaryDirectory() as folder:
            sent = requests(program, Path(folder))
        for name, body in sent.items():
            own = GOLDEN / (name if release == oldest else name.replace("volcano-", f"volcano-{release}-"))
            if own.name == name or (GOLDEN / name).read_bytes() != body:
                own.write_bytes(body)
                console.print(f"tests/golden/{own.name}")
    return 0


def _parser() -> ArgumentParser:
    parser = ArgumentParser("python -m e2e.volcano", description="Volcano's and kube-scheduler's clients, as released")
    parser.add_argument("--nodes", type=int, default=200, help="nodes (200)")
    parser.add_argument("--pods", type=int, default=500, help="pods of each session (500)")
    parser.add_argument("--volcano", action="append", choices=VERSIONS, help="a release of it (all)")
    parser.add_argument("--replies", type=int, default=4000, help="replies that the clients read (4000)")
    parser.add_argument("--golden", action="store_true", help="only write what the clients send to tests/golden")
    return parser


if __name__ == "__main__":
    sys.exit(main())
