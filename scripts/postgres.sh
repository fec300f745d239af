#!/usr/bin/env bash
# Print the folder of PostgreSQL's server programs: scripts/postgres.sh. Looks on PATH and where Debian puts them; where
# there are none, root installs the distribution's package, without its own database.
set -euo pipefail

found() {
  local programs=()
  mapfile -t programs < <(compgen -G '/usr/lib/postgresql/*/bin/postgres' | sort -V)
  if [ -n "$(type -P postgres)" ] && [ -n "$(type -P initdb)" ]; then
    dirname "$(realpath "$(type -P postgres)")"
  elif [ ${#programs[@]} -gt 0 ]; then
    dirname "${programs[-1]}"
  else
    return 1
  fi
}

found && exit
if [ "$(id -u)" != 0 ] || [ -z "$(type -P apt-get)" ]; then
  echo "PostgreSQL's server is not installed, and only root with apt-get can install it here: install your system's" \
    "package (Debian, Ubuntu: sudo apt-get install postgresql), or put initdb and postgres on PATH" >&2
  exit 1
fi
mkdir -p /etc/postgresql-common/createcluster.d
echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.d/no-main.conf
export DEBIAN_FRONTEND=noninteractive
{
  apt-get -q -o Acquire::Retries=3 update
  apt-get -q -o Acquire::Retries=3 install -y --no-install-recommends postgresql
} >&2
found || {
  echo "the package postgresql was installed, but it has no /usr/lib/postgresql/*/bin/postgres" >&2
  exit 1
}
