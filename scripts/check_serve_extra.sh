#!/usr/bin/env bash
# The [serve] extra alone serves a bundle: scripts/check_serve_extra.sh BIN [PYTHON]. BIN is the full environment's bin
# folder, which builds the wheel and a tiny bundle; PYTHON makes the empty environment. Everything else is temporary.
set -euo pipefail
bin=$(realpath "$1") python=${2:-python3} root=$(realpath "$(dirname "$0")/..")
work=$(mktemp -d)
server=

leave() { # the server first, and its end: what it still writes would keep the folder from going
  if [ -n "$server" ]; then
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
  fi
  rm -rf "$work" || echo "$work was left behind" >&2
}
trap leave EXIT

echo "building the wheel, a tiny bundle and a snapshot" >&2
"$bin/python" -m build --wheel --no-isolation --outdir "$work/dist" "$root" >"$work/build.log"
PYTHONPATH="$root" "$bin/python" - "$work" <<'PYTHON'
import sys
from dataclasses import replace
from pathlib import Path
from time import time_ns

from advisor.cluster.snapshot import publish
from models.registry.registry import Registry
from tests.advisor.clusters import snapshot, trained, write

work = Path(sys.argv[1])
write(trained(), work / "registry" / "tiny")
Registry(work / "registry").promote("tiny")
publish(work / "snapshots", replace(snapshot(11), as_of_us=time_ns() // 1000))
PYTHON

echo "installing requirements/serve.lock and the wheel into an empty environment" >&2
"$python" -m venv "$work/venv"
install=("$bin/uv" pip install --quiet --python "$work/venv/bin/python")
"${install[@]}" --require-hashes --only-binary :all: -r "$root/requirements/serve.lock"
"${install[@]}" --no-deps --no-index "$work"/dist/*.whl
for heavy in pyspark kafka lightgbm sklearn scipy pandas polars duckdb numba highspy ortools matplotlib onnx; do
  if "$work/venv/bin/python" -c "import $heavy" 2>/dev/null; then
    echo "requirements/serve.lock brings $heavy: take it out of the serve extra" >&2
    exit 1
  fi
done

cd "$work"
echo "making a store" >&2
"$work/venv/bin/python" -c "import psycopg, yaml"
env -i PATH=/usr/bin:/bin HOME="$work" COHABIT_DATABASE="$work/store.sqlite" "$work/venv/bin/cohabit" admin database migrate

echo "serving" >&2
env -i PATH=/usr/bin:/bin HOME="$work" COLUMNS=200 COHABIT_ADVISOR__MAX_FEATURE_AGE_S=3600 \
  "$work/venv/bin/cohabit" serve --registry "$work/registry" --snapshots "$work/snapshots" --port 0 --scheduler-port 0 >"$work/serve.log" 2>&1 &
server=$!
"$work/venv/bin/python" - "$work/serve.log" "$root/tests/golden/prioritize-names.request.json" <<'PYTHON'
import json
import re
import sys
import time
import urllib.request
from pathlib import Path
from urllib.error import HTTPError

log, golden = Path(sys.argv[1]), Path(sys.argv[2])


def found() -> list[str]:
    for _ in range(300):
        urls = re.findall(r"http://[0-9.:]+", log.read_text())
        if len(urls) >= 2:
            return urls
        time.sleep(0.1)
    sys.exit(f"cohabit serve did not say where it listens within 30 s:\n{log.read_text()}")


def fetched(url: str, body: bytes | None = None) -> str:
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as reply:
        return str(reply.read().decode())


def ready_at(url: str) -> dict[str, str]:
    """What it says once it is ready; the first score table takes a second or two."""
    for _ in range(300):
        try:
            return dict(json.loads(fetched(url)))
        except HTTPError:
            time.sleep(0.1)
    sys.exit(f"cohabit serve was not ready within 30 s:\n{log.read_text()}")


main, scheduler = found()[:2]
ready = ready_at(f"{main}/readyz")
scores = json.loads(fetched(f"{scheduler}/extender/prioritize", golden.read_bytes()))
page = fetched(f"{main}/ui/cluster")
style = re.findall(r'href="(/ui/static/[^"]*pages.css)"', page)[0]
assert "--surface" in fetched(main + style), style
offered = json.loads(golden.read_bytes())["NodeNames"]
assert ready["status"] == "ready", ready
assert [entry["Host"] for entry in scores] == offered, scores
assert len({entry["Score"] for entry in scores}) > 2, scores
print(f"the serve extra alone answers: {json.dumps(scores)}")
PYTHON
