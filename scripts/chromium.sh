#!/usr/bin/env bash
# Print the path of Chromium: scripts/chromium.sh. Looks on PATH; where there is none, root installs the distribution's
# package.
set -euo pipefail

found() {
  local name
  for name in chromium chromium-browser google-chrome-stable google-chrome; do
    type -P "$name" && return
  done
  return 1
}

found && exit
if [ "$(id -u)" != 0 ] || [ -z "$(type -P apt-get)" ]; then
  echo "Chromium is not installed, and only root with apt-get can install it here: install your system's package" \
    "(Debian: sudo apt-get install chromium), or put chromium or google-chrome on PATH" >&2
  exit 1
fi
export DEBIAN_FRONTEND=noninteractive
{
  apt-get -q -o Acquire::Retries=3 update
  apt-get -q -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 install -y --no-install-recommends chromium
} >&2
found || {
  echo "the package chromium was installed, but it put no chromium on PATH" >&2
  exit 1
}
