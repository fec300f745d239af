#!/usr/bin/env bash
# The site of docs/ in an environment of its own: scripts/docs.sh PYTHON VENV FOLDER.
#
# Strict: a page, link or anchor that is not there ends it, and so does a page that would load anything from elsewhere.
set -euo pipefail
python=$1 venv=$2 site=$3
stamp="$venv/.installed"
locks=(requirements/build.lock requirements/docs.lock)

. scripts/environment.sh

if [ ! -e "$stamp" ] || [ "${locks[0]}" -nt "$stamp" ] || [ "${locks[1]}" -nt "$stamp" ]; then
  echo "making $venv and installing $(grep -c "^[a-z].*==" "${locks[1]}") packages" >&2
  environment "$python" "$venv" "${locks[0]}"
  install_locked "$venv" "${locks[1]}"
  touch "$stamp"
fi
rm -rf "$site"
NO_MKDOCS_2_WARNING=1 "$venv/bin/mkdocs" build --strict --config-file mkdocs.yml --site-dir "$site"
"$venv/bin/python" scripts/site_check.py "$site"
