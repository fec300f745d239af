"""Doctor of a KubeSchedulerConfiguration: how kube-scheduler would ask, and what of that would go wrong.

What each setting does is in docs/scheduler.md; where kube-scheduler refuses a value, that is a problem too.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from cohabit.config.errors import CohabitError
from cohabit.doctor.finding import Finding, ok, problem, warning
from ingest.kube.yaml_depth import refuse_deep

VERB = "prioritize"
PREFIX_PATH = "/extender"
ADVISED_MS = 100.0
SHORTEST_MS = 25.0
"""The advisor takes up to 20 ms for an app that is new to it; a scheduler that waits less would lose such answers."""
DEFAULT_MS = 5000.0
"""What kube-scheduler waits without an httpTimeout."""
HEAVIEST = 10
"""The weights of kube-scheduler's own default scores add up to 12."""
OTHER_VERBS = ("bindVerb", "preemptVerb")
TLS_FILES = ("caFile", "certFile", "keyFile")
"""Of tlsConfig: who signed the listener's certificate, and what the scheduler shows."""
KEYS = {"urlPrefix", "prioritizeVerb", "weight", "enableHTTPS", "tlsConfig", "httpTimeout", "nodeCacheCapable"}
KEYS |= {"managedResources", "ignorable", "filterVerb", *OTHER_VERBS}
UNITS_MS = {"ns": 1e-6, "us": 1e-3, "µs": 1e-3, "ms": 1.0, "s": 1e3, "m": 6e4, "h": 3.6e6}
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h)")
_PLAIN = re.compile(r"[!-~]+")
Entry = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Configured:
    """What a configuration says of the extender, as far as requests can follow it.

    Args:
        findings: on everything else.
        url: of the prioritize call; None where there is none that can be asked.
        timeout_ms: how long the scheduler waits.
    """

    findings: list[Finding]
    url: str | None
    timeout_ms: float
    tls: tuple[str, ...] = ()
    """TLS_FILES of an https URL."""


def read_config(path: Path) -> object:
    """A YAML file as plain values.

    Raises:
        CohabitError: it cannot be read as YAML.
    """
    try:
        import yaml
    except ImportError as error:
        raise CohabitError(
            "--config reads YAML with PyYAML, which the serve extra brings: pip install pyyaml"
        ) from error
    try:
        content = path.read_bytes()
        refuse_deep(content)
        return yaml.safe_load(content)
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, RecursionError) as error:
        # 2026-13-45 and numbers of 5,000 digits, !!bool x, !!timestamp x, lists in each other
        raise CohabitError(
            f"{path} is not YAML ({' '.join(str(error).split())}): give kube-scheduler's --config"
        ) from error


def parts_of(url: object) -> SplitResult:
    """The parts of a URL; empty ones where it is none that can be asked."""
    try:
        parts = urlsplit(str(url))
        usable = (
            parts.scheme in {"http", "https"}
            and bool(parts.hostname)
            and parts.port != 0
            and bool(_PLAIN.fullmatch(str(url)))
        )
    except ValueError:
        usable = False
    return parts if usable else SplitResult("", "", "", "", "")


def duration_ms(said: object) -> float | None:
    """A Go duration such as "100ms" or "1m0.5s" in milliseconds; None for anything else.

    Source: documentation of Go's time.ParseDuration; signs are left out, no timeout has one.
    """
    if said == "0":
        return 0.0
    if not isinstance(said, str) or not said or _PART.sub("", said):
        return None
    return sum(float(number) * UNITS_MS[unit] for number, unit in _PART.findall(said))


def configured(config: object) -> Configured:
    """Judge a configuration.

    Args:
        config: from `read_config`.
    """
    if not isinstance(config, Mapping) or config.get("kind") != "KubeSchedulerConfiguration":
        return _nothing("is no KubeSchedulerConfiguration: give the file that kube-scheduler gets as --config")
    entries = config.get("extenders")
    known = [entry for entry in entries if isinstance(entry, Mapping)] if isinstance(entries, Sequence) else []
    entry = next((e for e in known if _is_ours(e)), known[0] if len(known) == 1 else None)
    if entry is None:
        return _nothing("has no extender of Cohabit: add the one that docs/scheduler.md shows")
    timeout_ms = duration_ms(entry.get("httpTimeout"))
    files = tuple(str(_tls(entry).get(key) or "") for key in TLS_FILES)
    return Configured(list(_findings(entry)), _url(entry), timeout_ms or DEFAULT_MS, files if all(files) else ())


def _nothing(said: str) -> Configured:
    return Configured([problem("configuration", said)], None, ADVISED_MS)


def _is_ours(entry: Entry) -> bool:
    return parts_of(entry.get("urlPrefix")).path.rstrip("/") == PREFIX_PATH


def _url(entry: Entry) -> str | None:
    prefix, verb = entry.get("urlPrefix"), entry.get("prioritizeVerb")
    return f"{str(prefix).rstrip('/')}/{verb}" if parts_of(prefix).scheme and verb else None


def _findings(entry: Entry) -> Iterator[Finding]:
    if unknown := sorted(str(key) for key in entry.keys() - KEYS):
        yield problem(
            "configuration", f"kube-scheduler knows no {', '.join(unknown)} and does not start: check the name"
        )
    yield _url_prefix(entry)
    yield _prioritize_verb(entry)
    yield from (_other_verb(verb) for verb in OTHER_VERBS if entry.get(verb))
    if entry.get("filterVerb"):
        yield _filter_verb(entry)
    yield _node_cache(entry)
    yield _http_timeout(entry)
    yield _ignorable(entry)
    yield _weight(entry)
    if entry.get("managedResources"):
        yield warning(
            "managedResources", "only pods that ask for these resources are advised: take it out to advise all"
        )


def _filter_verb(entry: Entry) -> Finding:
    if entry["filterVerb"] != "filter":
        return problem("filterVerb", f"is {entry['filterVerb']!r}: the advisor answers `filter` alone; take it out")
    if entry.get("ignorable") is not True:
        return problem("filterVerb", "fails pods while no extender answers: set ignorable: true, or take it out")
    return warning(
        "filterVerb",
        "asks for each pod twice; needed only with COHABIT_ADVISOR__FILTER=zero, or while plans are carried out",
    )


def _url_prefix(entry: Entry) -> Finding:
    prefix = str(entry.get("urlPrefix") or "")
    if not prefix:
        return problem("urlPrefix", "is missing: set it to http://127.0.0.1:8081/extender")
    scheme = parts_of(prefix).scheme
    if not scheme:
        return problem("urlPrefix", f"{prefix} is no address of http or https")
    if (scheme == "https") != bool(entry.get("enableHTTPS")):
        return problem("urlPrefix", f"{prefix} and enableHTTPS disagree: https needs enableHTTPS: true, http has none")
    if scheme == "https" and (lacks := [key for key in TLS_FILES if not _tls(entry).get(key)]):
        return problem("tlsConfig", f"lacks {', '.join(lacks)}: the listener answers only who shows a certificate")
    if not _is_ours(entry):
        return problem("urlPrefix", f"{prefix} does not end in {PREFIX_PATH}, where the advisor answers kube-scheduler")
    return ok("urlPrefix", prefix)


def _prioritize_verb(entry: Entry) -> Finding:
    verb = entry.get("prioritizeVerb")
    if verb == VERB:
        return ok("prioritizeVerb", VERB)
    return problem("prioritizeVerb", f"{_given(verb)}, so nothing is asked or found: set it to {VERB}")


def _given(value: object) -> str:
    return "is missing" if value is None else f"is {value!r}"


def _tls(entry: Entry) -> Mapping[str, object]:
    said = entry.get("tlsConfig")
    return said if isinstance(said, Mapping) else {}


def _other_verb(verb: str) -> Finding:
    return problem(
        verb, "is set, and the advisor only scores: each call is an error that can keep pods pending; take it out"
    )


def _node_cache(entry: Entry) -> Finding:
    if entry.get("nodeCacheCapable") is True:
        return ok("nodeCacheCapable", "true, names are sent")
    return problem("nodeCacheCapable", "is not true: whole nodes are sent, megabytes for each pod; set it to true")


def _http_timeout(entry: Entry) -> Finding:
    said = entry.get("httpTimeout")
    length_ms = duration_ms(said)
    if said is None or length_ms == 0:
        return warning("httpTimeout", "is not set, so each pod may wait 5 s for an advisor that hangs: set it to 100ms")
    if length_ms is None:
        return problem("httpTimeout", f"{said!r} is no duration and kube-scheduler does not start: write 100ms")
    if length_ms > ADVISED_MS:
        return warning(
            "httpTimeout", f"{said} for each pod while the advisor hangs, and one at a time: 100ms is enough"
        )
    if length_ms < SHORTEST_MS:
        return warning(
            "httpTimeout", f"{said} is shorter than the advisor may take (20 ms): answers are lost; set it to 100ms"
        )
    return ok("httpTimeout", str(said))


def _ignorable(entry: Entry) -> Finding:
    if entry.get("ignorable") is True:
        return ok("ignorable", "true")
    return warning(
        "ignorable", "is not true: with any verb other than prioritize, pods stay pending while the advisor is down"
    )


def _weight(entry: Entry) -> Finding:
    weight = entry.get("weight")
    if not isinstance(weight, int) or isinstance(weight, bool) or weight < 1:
        given = _given(weight)
        return problem("weight", f"{given}, and kube-scheduler asks for a whole number of 1 or more: set it to 1")
    if weight > HEAVIEST:
        return warning("weight", f"{weight} outvotes all of kube-scheduler's own scores together: 1 to 3 is enough")
    return ok("weight", f"{weight}, up to {100 * weight} points, compared with 100 of each score of weight 1")
