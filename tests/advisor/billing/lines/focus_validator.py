"""The public FOCUS validator, in an environment of its own, over one file; which of its rules fail."""

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

HERE = Path(__file__).parents[4]
SCRIPT = HERE / "scripts" / "focus_validator.sh"
VENV = HERE / ".venv-focus"
LIMIT_S = 600
CRITERIA = (
    "USAGE_MEASUREMENT",
    "UNIT_PRICING",
    "SUB_ACCOUNT",
    "BILLING_BASED_ON_PROVISIONED_RESOURCES",
    "RESOURCE_TYPE_ASSIGNMENT",
    "REGION",
    "TAGGING",
    "ACCOUNT_NAMING",
    "MULTIPLE_PRICING_CATEGORIES",
    "MULTIPLE_BILLING_ACCOUNT_TYPES",
    "MULTIPLE_SUB_ACCOUNT_TYPES",
    "AVAILABILITY_ZONE",
)
EXPECTED = frozenset({"InvoiceId-C-004-C"})
"""One leg of an OR that reports a failure while the whole passes."""


def failures(csv: Path, work: Path) -> tuple[dict[str, str], int]:
    """Rules of FOCUS 1.2 that a file breaks, with what is said of each; and how many rules were looked at."""
    installed = subprocess.run(
        [SCRIPT, sys.executable, VENV], capture_output=True, text=True, check=False, timeout=LIMIT_S
    )
    if installed.returncode:
        message = f"no FOCUS validator to test with: {installed.stderr.strip()[-1000:]}"
        raise RuntimeError(message)
    told = work / "focus.xml"
    criteria = ",".join(f"{name}_SUPPORTED" for name in CRITERIA)
    how: list[str] = ["--validate-version", "1.2", "--block-download", "--applicability-criteria", criteria]
    where = ["--data-file", str(csv), "--output-type", "unittest", "--output-destination", str(told)]
    ran = subprocess.run(
        [VENV / "bin" / "python", "-m", "focus_validator.main", *how, *where],
        cwd=installed.stdout.strip(), capture_output=True, text=True, check=False, timeout=LIMIT_S,
    )  # fmt: skip
    if not told.exists():
        message = f"the FOCUS validator said nothing: {(ran.stdout + ran.stderr)[-2000:]}"
        raise RuntimeError(message)
    cases = list(ET.parse(told).getroot().iter("testcase"))  # noqa: S314 - our own environment wrote it
    failed = {
        str(case.get("name")).partition(" :: ")[0]: str(found.get("message"))
        for case in cases
        for found in (*case.findall("failure"), *case.findall("error"))
    }
    return failed, len(cases)
