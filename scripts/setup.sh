#!/usr/bin/env bash
# Create the environment from the locks: scripts/setup.sh PYTHON VENV.
set -euo pipefail
python=$1 venv=$2
. scripts/environment.sh

echo "making $venv and installing $(grep -c "^[a-z].*==" requirements/all.lock) packages, about a minute" >&2
environment "$python" "$venv" requirements/build.lock
install_locked "$venv" requirements/all.lock
"$venv/bin/uv" pip install --quiet --python "$venv/bin/python" --no-build-isolation --no-deps --editable .
