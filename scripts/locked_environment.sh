#!/usr/bin/env bash
# What a lock names, in an environment of its own: scripts/locked_environment.sh PYTHON VENV NAME, for requirements/NAME.lock.
set -euo pipefail
python=$1 venv=$2 name=$3
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/scripts/environment.sh"
lock="$here/requirements/$name.lock"
build="$here/requirements/build.lock"
stamp="$venv/.installed"

if [ ! -e "$stamp" ] || [ "$lock" -nt "$stamp" ] || [ "$build" -nt "$stamp" ]; then
  echo "making $venv and installing $(grep -c "^[a-z].*==" "$lock") packages, half a minute" >&2
  environment "$python" "$venv" "$build" >&2
  install_locked "$venv" "$lock" >&2
  touch "$stamp"
fi
