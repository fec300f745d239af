#!/usr/bin/env bash
# The public FOCUS validator in an environment of its own: scripts/focus_validator.sh PYTHON VENV; prints its folder.
#
# It asks for Python 3.12 for the sake of one line, for numpy 1 and pyarrow before 21, and reads a file next to its own
# modules by a relative path: so it is run from there.
set -euo pipefail
python=$1 venv=$2
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/scripts/environment.sh"
stamp="$venv/.installed"
locks=("$here/requirements/focus.lock" "$here/requirements/focus-validator.lock")

if [ ! -e "$stamp" ] || [ "${locks[0]}" -nt "$stamp" ] || [ "${locks[1]}" -nt "$stamp" ]; then
  environment "$python" "$venv" "$here/requirements/build.lock" >&2
  install_locked "$venv" "${locks[0]}" >&2
  pip=("$venv/bin/python" -m pip install --quiet --retries 5 --disable-pip-version-check --require-hashes)
  retry "${pip[@]}" --no-deps --no-build-isolation --ignore-requires-python -r "${locks[1]}" >&2
  folder=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
  converter="$folder/focus_validator/config_objects/focus_to_duckdb_converter.py"
  sed -i "s/k\.replace('\\\\\"', '\\\\\"\\\\\"')/k.replace(chr(34), chr(34) * 2)/" "$converter"
  touch "$stamp"
fi
"$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])'
