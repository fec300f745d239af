#!/usr/bin/env bash
# The software bill of materials of each image, as CycloneDX, by a tool in an environment of its own:
# scripts/sbom.sh PYTHON VENV FOLDER.
set -euo pipefail
python=$1 venv=$2 folder=$3
stamp="$venv/.installed"
locks=(requirements/build.lock requirements/sbom.lock)

. scripts/environment.sh

if [ ! -e "$stamp" ] || [ "${locks[0]}" -nt "$stamp" ] || [ "${locks[1]}" -nt "$stamp" ]; then
  echo "making $venv and installing $(grep -c "^[a-z].*==" "${locks[1]}") packages" >&2
  environment "$python" "$venv" "${locks[0]}"
  install_locked "$venv" "${locks[1]}"
  touch "$stamp"
fi
mkdir -p "$folder"
for image in serve jobs; do
  PYTHONWARNINGS=ignore "$venv/bin/cyclonedx-py" requirements "requirements/$image.lock" --output-reproducible --spec-version 1.6 \
    --mc-type application --pyproject pyproject.toml --output-file "$folder/$image.cdx.json"
  "$venv/bin/python" scripts/sbom_check.py "requirements/$image.lock" "$folder/$image.cdx.json"
done
