#!/usr/bin/env bash
# Create the environment of public traces and other forecasters from its lock: scripts/bench_peers.sh PYTHON VENV.
set -euo pipefail
python=$1 venv=$2
. scripts/environment.sh

environment "$python" "$venv" requirements/build.lock
install_locked "$venv" requirements/bench.lock
