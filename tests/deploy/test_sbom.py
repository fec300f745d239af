"""SBOM: what `make sbom` checks, without the tool that it installs."""

import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("sbom_check", ROOT / "scripts" / "sbom_check.py")
assert spec is not None
assert spec.loader is not None
sbom_check = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sbom_check)

A, B, C = "a" * 64, "b" * 64, "c" * 64
LOCK = f"""one==1.0 \\
    --hash=sha256:{A} \\
    --hash=sha256:{B}
two==2.0 ; sys_platform == 'win32' \\
    --hash=sha256:{C}
"""


def component(name: str, version: str, *digests: str) -> dict[str, object]:
    hashes = [{"alg": "SHA-256", "content": digest} for digest in digests]
    return {"name": name, "version": version, "externalReferences": [{"type": "distribution", "hashes": hashes}]}


def test_a_list_of_every_package_with_every_file_is_whole() -> None:
    sbom = {"components": [component("one", "1.0", B, A), component("two", "2.0", C)]}

    assert sbom_check.problems(sbom_check.locked(LOCK), sbom_check.listed(sbom)) == []


def test_packages_and_files_that_only_one_side_has_are_found() -> None:
    sbom = {"components": [component("one", "1.0", A), component("three", "3.0", C)]}

    assert sbom_check.problems(sbom_check.locked(LOCK), sbom_check.listed(sbom)) == [
        "two==2.0: not in the SBOM",
        "three==3.0: not in the lock",
        "one==1.0: other digests",
    ]


def test_every_package_of_both_images_is_read_from_its_lock() -> None:
    for image in ("serve", "jobs"):
        text = (ROOT / "requirements" / f"{image}.lock").read_text()
        pins = sbom_check.locked(text)

        assert len(pins) == len(re.findall(r"^[a-z0-9-]+==", text, re.MULTILINE))
        assert sum(map(len, pins.values())) == len(set(re.findall(r"sha256:[0-9a-f]{64}", text)))
        assert all(pins.values())


def test_the_tool_is_installed_by_hash() -> None:
    pins = sbom_check.locked((ROOT / "requirements" / "sbom.lock").read_text())

    assert any(pin.startswith("cyclonedx-bom==") for pin in pins)
    assert all(pins.values())
