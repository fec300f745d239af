#!/usr/bin/env bash
# Create the environment from the locks: scripts/setup.sh PYTHON VENV. Every download is tried three times.
set -euo pipefail
python=$1 venv=$2

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "Cohabit needs Python 3.11 or newer; $python is $("$python" -V 2>&1). Try: make setup PYTHON=python3.11" >&2
  exit 1
}

retry() {
  for wait in 5 20 0; do
    "$@" && return 0
    echo "failed: $*; trying again in ${wait} s" >&2
    sleep "$wait"
  done
  echo "gave up after three tries: $*" >&2
  return 1
}

echo "making $venv and installing $(grep -c "^[a-z].*==" requirements/all.lock) packages, about a minute" >&2
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
pip=("$venv/bin/python" -m pip install --quiet --retries 5)
retry "${pip[@]}" --require-hashes -r requirements/build.lock
retry "${pip[@]}" --require-hashes --no-build-isolation -r requirements/all.lock
"${pip[@]}" --no-build-isolation --no-deps --editable .
