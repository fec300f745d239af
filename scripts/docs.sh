#!/usr/bin/env bash
# The site of docs/ in an environment of its own: scripts/docs.sh PYTHON VENV FOLDER.
#
# Strict: a page, link or anchor that is not there ends it, and so does a page that would load anything from elsewhere.
set -euo pipefail
python=$1 venv=$2 site=$3
stamp="$venv/.installed"
locks=(requirements/build.lock requirements/docs.lock)

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "Cohabit needs Python 3.11 or newer; $python is $("$python" -V 2>&1). Try: make docs PYTHON=python3.11" >&2
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

if [ ! -e "$stamp" ] || [ "${locks[0]}" -nt "$stamp" ] || [ "${locks[1]}" -nt "$stamp" ]; then
  echo "making $venv and installing $(grep -c "^[a-z].*==" "${locks[1]}") packages" >&2
  [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
  pip=("$venv/bin/python" -m pip install --quiet --retries 5 --disable-pip-version-check --require-hashes)
  retry "${pip[@]}" -r "${locks[0]}"
  retry "${pip[@]}" --no-build-isolation -r "${locks[1]}"
  touch "$stamp"
fi
rm -rf "$site"
NO_MKDOCS_2_WARNING=1 "$venv/bin/mkdocs" build --strict --config-file mkdocs.yml --site-dir "$site"
"$venv/bin/python" scripts/site_check.py "$site"
