#!/usr/bin/env bash
# Makes a Python environment and installs a lock into it, once per change of the lock. Needs only Python.
#   bash lab/bootstrap.sh                       .venv, everything: for make test and make demo
#   bash lab/bootstrap.sh FOLDER LOCK WHAT      a small one of its own: for make try and make docs
set -euo pipefail
cd "$(dirname "$0")/.."

venv=${1:-.venv}
lock=${2:-requirements.lock}
what=${3:-about 100 MB and a Go toolchain of 280 MB; a minute or two}
stamp=$venv/.installed
wanted=$(cat "$lock" pyproject.toml | cksum)
# Some images and some pip.conf ask for it, and then pip refuses every environment.
export PIP_USER=0

# No: its Python was removed or is too old, it was interrupted before it had pip, or the clone was moved or copied:
# the commands in it name their Python by its path.
is_sound() {
  local made_at
  "$venv/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || return 1
  [ -x "$venv/bin/pip" ] || return 1  # the last of it that is written
  made_at=$(sed -n 's/^command = .* -m venv \(--[^ ]* \)*//p' "$venv/pyvenv.cfg")
  [ -z "$made_at" ] || [ "$made_at" -ef "$venv" ]
}

find_python() {
  local candidate
  for candidate in "${PYTHON:-}" python3 python3.14 python3.13 python3.12 python3.11; do
    if [ -n "$candidate" ] && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  echo "kube-balloons needs Python 3.11 or later; none was found (python3, python3.11 ... python3.14, or \$PYTHON)." >&2
  return 1
}

if is_sound; then
  [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ] && exit 0
else
  python=$(find_python)
  echo "Making $venv with $("$python" --version) ..." >&2
  if ! "$python" -m venv --clear "$venv"; then
    rm -rf "$venv"
    echo "Python's venv module does not work here; on Debian and Ubuntu: apt-get install python3-venv" >&2
    exit 1
  fi
fi
echo "Installing the packages of $lock ($what) ..." >&2
if ! "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r "$lock"; then
  echo "The packages could not be installed: pip's message above says why. It needs a way to a Python package index." >&2
  exit 1
fi
if [ "$venv" = .venv ]; then
  # pip compiles one file at a time. A file that this Python cannot compile (a template, say) is none that it imports.
  # The small environments import so little that Python compiles it while it runs.
  .venv/bin/python -m compileall -qq -j 0 .venv/lib || true
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
fi
echo "$wanted" > "$stamp"
