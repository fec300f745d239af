#!/usr/bin/env bash
# The closed loop under every built-in law, and under the measured pairs of BENCH_DATA in every way to put them together.
# What OUT already has is not done again, so that a sweep of hours may be broken off and gone on with.
set -euo pipefail
cohabit=$1 out=$2
one() {
  local name=$1
  shift
  if [[ -f $out/$name/backtest.json ]]; then
    echo "$name: done before, in $out/$name"
  else
    "$cohabit" dev backtest "$@" --out "$out/$name"
  fi
}
for law in queueing threshold saturating; do one "$law" --law "$law"; done
pairs=${BENCH_DATA:-}/interference/pairs
if [[ -n ${BENCH_DATA:-} ]]; then
  for compose in additive max saturating threshold; do
    for file in "$pairs"/*.csv; do
      name=$(basename "$file" .csv)
      case $name in *_alone) continue ;; esac
      one "$name-$compose" --law "$file" --compose "$compose"
      alone=$pairs/${name}_alone.csv
      if [[ -f $alone ]]; then one "$name-alone-$compose" --law "$file" --compose "$compose" --alone "$alone"; fi
    done
  done
else
  echo "BENCH_DATA is not set: no measured pairs"
fi
