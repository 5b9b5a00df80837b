#!/bin/sh
# Install the Debian packages that are missing, and nothing else.
#   deps.sh [build] [test] [fuzz] [deb] [slurm] [serve]     default: build test
# Needs root or sudo; otherwise prints the command and fails.
# SKIP_DEPS=1 trusts that everything is there (other distributions).
set -eu

[ "${SKIP_DEPS:-0}" = 1 ] && exit 0

build="gcc libc6-dev make libzstd-dev libssl-dev libxxhash-dev libyaml-dev
    libpcre2-dev libutf8proc-dev libjansson-dev libedit-dev libevent-dev"
tests="g++ libcmocka-dev bats perl mandoc jq pkg-config python3 python3-pip zstd curl parallel"
deb="dpkg-dev binutils"
fuzz="clang libclang-rt-14-dev"
slurm="slurm-wlm munge"
serve="python3-venv"

want=
for group in "${@:-all}"; do
    case $group in
    build) want="$want $build" ;;
    test) want="$want $tests" ;;
    fuzz) want="$want $fuzz" ;;
    deb) want="$want $deb" ;;
    slurm) want="$want $slurm" ;;
    serve) want="$want $serve" ;;
    all) want="$want $build $tests" ;;
    *) echo "deps.sh: unknown group '$group'" >&2; exit 64 ;;
    esac
done

if ! command -v dpkg-query >/dev/null 2>&1; then
    echo "This is not a Debian system.  Install what these packages hold," >&2
    echo "then run make with SKIP_DEPS=1:" >&2
    echo "  "$want >&2
    exit 69
fi

missing=
for p in $want; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$p" 2>/dev/null)" = installed ] ||
        missing="$missing $p"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ]; then
    as_root=
elif command -v sudo >/dev/null 2>&1; then
    as_root=sudo
else
    echo "These packages are missing; as root, run:" >&2
    echo "  apt-get install -y --no-install-recommends$missing" >&2
    exit 69
fi
echo "Installing:$missing"
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get update -q
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y \
    --no-install-recommends $missing
