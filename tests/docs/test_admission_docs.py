"""The page on advice at admission: its example, its outcomes and its command are those of the code."""

import re
from pathlib import Path

import yaml
from typer.testing import CliRunner

from advisor.admission.preference import Listed, preferred_terms
from cohabit.cli.main import app

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "admission.md").read_text()


def test_the_example_has_the_terms_of_its_table() -> None:
    points = [(name, int(of_10)) for name, of_10 in re.findall(r"^\| `(n\d)` \| (\d) \|$", PAGE, re.MULTILINE)]
    listed = Listed(tuple(one for one in points if one[1]), tuple(name for name, of_10 in points if not of_10))
    [block] = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)

    assert yaml.safe_load(block) == list(preferred_terms(listed))
    assert f'cohabit.io/would-advise: "{listed}"' in PAGE


def test_every_outcome_in_the_code_is_on_the_page_with_its_reason() -> None:
    code = "".join(
        (ROOT / "advisor" / path).read_text()
        for path in ("admission/admission_advice.py", "admission/created_pod.py", "api/scheduler/admission.py")
    )
    shown = set(re.findall(r"^\| `(\w+)` \| (?:`(\w+)`)?", PAGE, re.MULTILINE)) - {
        ("n3", ""),
        ("n7", ""),
        ("n1", ""),
    }

    given = {(outcome, reason) for outcome, reason in re.findall(r'Given\("(\w+)", \[\], "(\w+)"\)', code)}
    skipped = {("skipped", reason) for reason in re.findall(r'return "(\w+)"', code)} | {
        ("skipped", "one_host"),
        ("skipped", "gated"),
    }
    assert given <= shown
    assert skipped <= shown
    assert {outcome for outcome, _ in shown} >= {
        "advised",
        "annotated",
        "neutral",
        "skipped",
        "late",
        "failed",
    }


def test_the_command_makes_the_files(tmp_path: Path) -> None:
    [line] = re.findall(r"<!-- runs as a test -->\n```sh\ncohabit (.*?)\s+#", PAGE)

    done = CliRunner().invoke(app, line.replace("webhook/", str(tmp_path / "webhook")).split())

    assert done.exit_code == 0
    assert sorted(path.name for path in (tmp_path / "webhook").iterdir()) == ["ca.crt", "tls.crt", "tls.key"]
