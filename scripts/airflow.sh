#!/usr/bin/env bash
# Airflow in an environment of its own, since it pins what serving pins otherwise: scripts/airflow.sh PYTHON VENV.
set -euo pipefail
python=$1 venv=$2
here=$(cd "$(dirname "$0")/.." && pwd)
lock="$here/requirements/airflow.lock"
build="$here/requirements/build.lock"
stamp="$venv/.installed"

retry() {
  for wait in 5 20 0; do
    "$@" && return 0
    echo "failed: $*; trying again in ${wait} s" >&2
    sleep "$wait"
  done
  echo "gave up after three tries: $*" >&2
  return 1
}

if [ ! -e "$stamp" ] || [ "$lock" -nt "$stamp" ] || [ "$build" -nt "$stamp" ]; then
  echo "making $venv and installing $(grep -c "^[a-z].*==" "$lock") packages, about a minute" >&2
  "$python" -m venv "$venv"
  pip=("$venv/bin/python" -m pip install --quiet --retries 5 --disable-pip-version-check --require-hashes)
  retry "${pip[@]}" -r "$build" >&2
  retry "${pip[@]}" --no-build-isolation -r "$lock" >&2
  touch "$stamp"
fi
