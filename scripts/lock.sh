#!/usr/bin/env bash
# Resolve the locks again: scripts/lock.sh BIN. Hashes, no header, no addresses; the build tools come first.
set -euo pipefail
bin=$1
compile=("$bin/uv" pip compile --quiet --universal --generate-hashes --no-header --no-annotate --python-version 3.11)
"${compile[@]}" requirements/build.in --output-file requirements/build.lock
"${compile[@]}" pyproject.toml --all-extras --group dev --output-file requirements/all.lock
"${compile[@]}" pyproject.toml --extra serve --extra read --output-file requirements/serve.lock
"${compile[@]}" pyproject.toml --all-extras --constraints requirements/all.lock --output-file requirements/jobs.lock
"${compile[@]}" requirements/airflow.in --output-file requirements/airflow.lock
"${compile[@]}" requirements/stock.in --output-file requirements/stock.lock
"${compile[@]}" requirements/bench.in --output-file requirements/bench.lock
"${compile[@]}" requirements/docs.in --output-file requirements/docs.lock
"${compile[@]}" requirements/sbom.in --output-file requirements/sbom.lock
