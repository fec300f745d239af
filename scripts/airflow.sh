#!/usr/bin/env bash
# Airflow in an environment of its own, since it pins what serving pins otherwise: scripts/airflow.sh PYTHON VENV.
set -euo pipefail
python=$1 venv=$2
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/scripts/environment.sh"
lock="$here/requirements/airflow.lock"
build="$here/requirements/build.lock"
stamp="$venv/.installed"

if [ ! -e "$stamp" ] || [ "$lock" -nt "$stamp" ] || [ "$build" -nt "$stamp" ]; then
  echo "making $venv and installing $(grep -c "^[a-z].*==" "$lock") packages, half a minute" >&2
  environment "$python" "$venv" "$build" >&2
  install_locked "$venv" "$lock" >&2
  touch "$stamp"
fi
