#!/usr/bin/env bash
# The closed loop under every built-in law, and under the measured pairs of BENCH_DATA in every way to put them together.
set -euo pipefail
cohabit=$1 out=$2
"$cohabit" backtest --law queueing --law threshold --law saturating --out "$out"
pairs=${BENCH_DATA:-}/interference/pairs
if [[ -n ${BENCH_DATA:-} ]]; then
  for file in "$pairs"/*.csv; do
    name=$(basename "$file" .csv)
    case $name in *_alone) continue ;; esac
    alone=()
    [[ -f $pairs/${name}_alone.csv ]] && alone=(--alone "$pairs/${name}_alone.csv")
    "$cohabit" backtest --law "$file" "${alone[@]}" --out "$out/$name"
  done
else
  echo "BENCH_DATA is not set: no measured pairs"
fi
