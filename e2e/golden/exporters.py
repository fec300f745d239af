"""Exporters: records of every source, made by the exporters' own parts where they can be had. An edge."""

import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path

from e2e.golden.docs_page import (
    NODE,
    Section,
    kept_metrics,
    own_records,
    resource_attributes,
    telegraf_configs,
)
from e2e.golden.modules import collector_program, run_inside
from e2e.golden.rebuilt import adapter_records, dcgm_page, go_pages, otlp_example, text_page
from e2e.kube.errors import BuildFailed

OTEL = "github.com/open-telemetry/opentelemetry-collector-contrib/receiver/"
KUBELETSTATS, DOCKERSTATS = f"{OTEL}kubeletstatsreceiver", f"{OTEL}dockerstatsreceiver"
CADVISOR, KOORDINATOR = "github.com/google/cadvisor/lib", "github.com/koordinator-sh/koordinator"
TELEGRAF, NODE_EXPORTER = "github.com/influxdata/telegraf", "github.com/prometheus/node_exporter"
KUBERNETES = "k8s.io/kubernetes"
RESOURCE_TEST = "pkg/kubelet/metrics/collectors/resource_metrics_test.go"
FIXTURES = "collector/fixtures"
INPUTS = "plugins/inputs"
POD_UID = "0d5a3f6e-1111-2222-3333-444455556666"
CGROUP = f"/kubepods/burstable/pod{POD_UID}/abc"
"""Cgroup of the container that stands for cAdvisor's `testcontainer`."""

Records = list[tuple[str, bytes]]
"""Topic and record."""
Pages = Mapping[str, tuple[str, dict[str, str]]]
"""Text expositions, and the labels of the target that they are scraped from, by source."""


def gathered(
    sections: Mapping[str, Section], modules: Mapping[str, Path], work: Path, at: datetime
) -> dict[str, Records]:
    """Records of each source by its name.

    Args:
        sections: of docs/ingest.md.
        modules: folders of the exporters' modules.
        work: empty folder.
        at: time of golden data that has none.

    Raises:
        BuildFailed: a part could not be fetched, built or run.
    """
    pages = dict(_pages(modules, work))
    return {
        "Cohabit, native": list(own_records(sections["Cohabit's own format"])),
        **_prometheus(sections, pages, at),
        **_telegraf(sections["Telegraf"], modules, work),
        **_collector(sections["OpenTelemetry Collector"], modules, work, at),
        "cAdvisor, cadvisor": [(sections["cAdvisor"].topic()[0], (work / "cadvisor" / "stats.json").read_bytes())],
    }


def _pages(modules: Mapping[str, Path], work: Path) -> Iterator[tuple[str, tuple[str, dict[str, str]]]]:
    at_node = {"node": NODE, "instance": f"{NODE}:10250", "job": "kubelet"}
    of_cadvisor, of_koordlet = work / "cadvisor", work / "koordlet"
    for folder in (of_cadvisor, of_koordlet):
        folder.mkdir()
    environment = {"COHABIT_RECORDS": str(of_cadvisor), "COHABIT_CGROUP": CGROUP, "COHABIT_POD_UID": POD_UID}
    place = {"cadvisor/metrics_test.go": "metrics/cohabit_test.go"}
    run_inside(modules[CADVISOR], work / "cadvisor-copy", place, environment)
    yield "kubelet cadvisor", ((of_cadvisor / "kubelet.txt").read_text(), at_node)
    expected = go_pages((modules[KUBERNETES] / RESOURCE_TEST).read_text(), "container_cpu_usage_seconds_total")
    yield "kubelet resource", (expected[0].replace("\t", ""), at_node)
    fixture = (modules[NODE_EXPORTER] / FIXTURES / "e2e-output.txt").read_text()
    yield "node_exporter", (fixture, {"instance": f"{NODE}:9100", "job": "node"})
    place = {"koordinator/metrics_test.go": "pkg/koordlet/metrics/cohabit_test.go"}
    run_inside(modules[KOORDINATOR], work / "koordinator-copy", place, {"COHABIT_RECORDS": str(of_koordlet)})
    yield "koordlet", ((of_koordlet / "koordlet.txt").read_text(), {"instance": "10.0.0.7:9316", "job": "koordlet"})
    yield "dcgm-exporter", (dcgm_page(), {"instance": "10.0.0.8:9400", "job": "dcgm"})


def _prometheus(sections: Mapping[str, Section], pages: Pages, at: datetime) -> dict[str, Records]:
    """Each page through prometheus-kafka-adapter, and as text to the topic of unnamed format."""
    section = sections["Prometheus"]
    topic, kept = section.topic()[0], kept_metrics(section)
    found: dict[str, Records] = {}
    for source, (page, target) in pages.items():
        made = adapter_records(page, target, kept, at)
        found[f"{source}, prom-adapter"] = [(topic, record) for _, record in made]
        found[f"{source}, text"] = [("anything", text_page(page, {"node": NODE}))]
    return found


def _telegraf(section: Section, modules: Mapping[str, Path], work: Path) -> dict[str, Records]:
    configured, records, proc = work / "telegraf-config", work / "telegraf", work / "proc"
    configured.mkdir()
    for name, text in telegraf_configs(section).items():
        (configured / f"{name}.toml").write_text(text)
    shutil.copytree(modules[NODE_EXPORTER] / FIXTURES / "proc", proc, copy_function=shutil.copyfile)
    (proc / "net").chmod(0o755)
    shutil.copyfile("/proc/net/dev", proc / "net" / "dev")  # the fixtures have none: node_exporter asks by netlink
    place = {
        "telegraf/golden.go": "golden/golden.go",
        "telegraf/system_test.go": "golden/system_test.go",
        **{f"telegraf/{name}_test.go": f"{INPUTS}/{name}/cohabit_test.go" for name in ("docker", "kubernetes")},
    }
    environment = {"COHABIT_CONFIG": str(configured), "COHABIT_RECORDS": str(records), "HOST_PROC": str(proc)}
    run_inside(modules[TELEGRAF], work / "telegraf-copy", place, environment)
    topic = section.topic()[0]
    return {
        f"Telegraf {name}, telegraf-json": [(topic, path.read_bytes()) for path in _numbered(records / name, "json")]
        for name in telegraf_configs(section)
    }


def _collector(section: Section, modules: Mapping[str, Path], work: Path, at: datetime) -> dict[str, Records]:
    program, topic = collector_program(), section.topic()[0]
    golden = {
        "kubeletstats": modules[KUBELETSTATS].glob("testdata/scraper/*.yaml"),
        "docker_stats": modules[DOCKERSTATS].glob("testdata/mock/*/expected_metrics.yaml"),
    }
    found: dict[str, Records] = {}
    for name, files in golden.items():
        folder = work / name
        folder.mkdir()
        _marshal(program, section, files, folder, at)
        found[f"{name}, otlp-proto"] = [(topic, path.read_bytes()) for path in _numbered(folder, "pb")]
        found[f"{name}, otlp-json"] = [("anything", path.read_bytes()) for path in _numbered(folder, "json")]
    found["OTLP example, otlp-json"] = [("anything", otlp_example(at))]
    return found


def _marshal(program: Path, section: Section, files: Iterable[Path], folder: Path, at: datetime) -> None:
    done = subprocess.run(
        [program, str(int(at.timestamp()) * 1000), resource_attributes(section), str(folder)],
        input="".join(f"{path}\n" for path in sorted(files)),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BuildFailed("marshalling golden metrics", done.stderr[-2000:])


def _numbered(folder: Path, suffix: str) -> list[Path]:
    return sorted(folder.glob(f"*.{suffix}"), key=lambda path: int(path.stem))
