#!/bin/sh
# check_serve.sh - serve_clients.py in an environment of its own, which is made
# in build/ and kept there (make check-serve).
set -eu

top=$(cd "$(dirname "$0")/../.." && pwd)
venv=$top/build/venv-serve
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if ! cmp -s "$top/tests/tools/serve_clients.txt" "$venv/made-of"; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install -q -r "$top/tests/tools/serve_clients.txt" >&2
    cp "$top/tests/tools/serve_clients.txt" "$venv/made-of"
fi
"$CAG_BIN/cag-build" -q -m "$CAG_DEMO_MODEL" -o "$work/kb.kvc" "$top/examples/knowledge.txt"
"$venv/bin/python" "$top/tests/tools/serve_clients.py" "$CAG_BIN/cag-serve" "$CAG_BIN/cag-ask" "$work/kb.kvc"
