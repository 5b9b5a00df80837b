#!/bin/sh
# From a tarball to an installed program and back, in an empty directory.
#   distcheck.sh build/cag-VERSION.tar.gz
set -eu

tarball=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
cd "$work"
tar -xzf "$tarball"
cd cag-*
root=$work/root
unset DESTDIR MAKEFLAGS MAKELEVEL MFLAGS
make -j2 install DESTDIR="$root" PREFIX=/usr >"$work/log" 2>&1 ||
    { tail -n 40 "$work/log"; exit 1; }
"$root/usr/bin/cag-build" --version | grep -E '^git [0-9a-f]{7,}$'

cd "$work"
echo "The Sparrow-7 flies 47 minutes." >kb.md
PATH=$root/usr/bin:$PATH HOME=$work
cag-build -q -m cag-*/tests/golden/models/qwen3 -o kb.kvc kb.md
cag-build --check kb.kvc
cag-inspect -t kb.kvc >/dev/null
test -n "$(cag-ask -q -n 8 kb.kvc 'How long does it fly?')"

make -C "$work"/cag-* uninstall DESTDIR="$root" PREFIX=/usr >/dev/null
left=$(find "$root" ! -type d)
test -z "$left" || { echo "make uninstall left:" "$left"; exit 1; }
echo "distcheck: $tarball builds, installs, answers and goes"
