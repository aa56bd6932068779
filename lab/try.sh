#!/usr/bin/env bash
# Shows what the reading commands say about the shipped example: no cluster, no build. Needs only Python.
set -euo pipefail
cd "$(dirname "$0")/.."
# make asks Python to keep nothing; here the first command compiles what all three import.
export PYTHONDONTWRITEBYTECODE=

if [ -f .venv/.installed ] && [ -x .venv/bin/python ]; then
  python=.venv/bin/python
else
  bash lab/bootstrap.sh .venv-try requirements-report.lock "about 60 MB; half a minute"
  python=.venv-try/bin/python
fi

cluster=docs/example/cluster.tar.gz
page=build/try/report.html
mkdir -p build/try

show() {
  printf '\n$ balloons %s\n' "$*"
  code=0
  "$python" -m balloons "$@" || code=$?
  [ "$code" -eq 0 ] || [ "$code" -eq 3 ] || exit "$code"  # 3: the answer is no
}

show doctor --from "$cluster"
show plan --from "$cluster" --to 900
show report --from "$cluster" --to 900 -o "$page"
cat <<END

That was an example cluster. The report is in $page: open it in a browser.
To ask more: $python -m balloons --help
END
