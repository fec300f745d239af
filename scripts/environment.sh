# Sourced by scripts that make an environment from locks. Every download is tried three times.

retry() {
  for wait in 5 20 0; do
    "$@" && return 0
    echo "failed: $*; trying again in ${wait} s" >&2
    sleep "$wait"
  done
  echo "gave up after three tries: $*" >&2
  return 1
}

# install_locked VENV LOCK [OPTIONS]: what a lock names, by its hashes; the build tools have to be there, uv is one of them.
install_locked() {
  local venv=$1 lock=$2
  shift 2
  retry "$venv/bin/uv" pip install --quiet --python "$venv/bin/python" --require-hashes --no-build-isolation "$@" -r "$lock"
}

# environment PYTHON VENV BUILD_LOCK: an empty one with the build tools.
environment() {
  "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "Cohabit needs Python 3.11 or newer; $1 is $("$1" -V 2>&1). Try: make PYTHON=python3.11 ..." >&2
    return 1
  }
  [ -x "$2/bin/python" ] || "$1" -m venv "$2"
  retry "$2/bin/python" -m pip install --quiet --retries 5 --disable-pip-version-check --require-hashes -r "$3"
}
