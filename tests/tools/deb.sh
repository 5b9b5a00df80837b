#!/bin/sh
# Make build/cag_VERSION_ARCH.deb from what `make install` installs.
#   deb.sh VERSION LIBDIR ROOT OUT
# ROOT is the tree that was installed with PREFIX=/usr; the package is OUT.
#
# One package for all: programs (which need no libcag.so), library, headers,
# manual, completions.  What the programs and the library need at run time
# comes from their own headers (dpkg-shlibdeps).
set -eu

version=$1 libdir=$2 root=$3 out=$4
arch=$(dpkg --print-architecture)
doc=$root/usr/share/doc/cag
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct 2>/dev/null || date +%s)}"
export SOURCE_DATE_EPOCH
maintainer="${DEBFULLNAME:-cag authors} <${DEBEMAIL:-cag@localhost}>"

for f in "$root"/usr/bin/cag-* "$root$libdir"/libcag*.so.*.*; do
    [ ! -f "$f" ] || strip --strip-unneeded "$f"
done
strip --strip-debug --enable-deterministic-archives "$root$libdir/libcag.a"

# as Debian wants them: compressed manual and change log, licence by its name
find "$root/usr/share/man" -type f ! -name '*.gz' -exec gzip -9n {} +
gzip -9n -c CHANGELOG.md >"$doc/changelog.gz"
gzip -9n >"$doc/changelog.Debian.gz" <<END
cag ($version-1) unstable; urgency=medium

  * Built from the sources of version $version by make deb.

 -- $maintainer  $(date -R -u -d "@$SOURCE_DATE_EPOCH")
END
rm -f "$doc/CHANGELOG.md" "$doc/LICENSE"
{
    echo "Upstream-Name: cag"
    echo
    echo "Files: *"
    sed -n 's/^Copyright (c) /Copyright: /p' LICENSE
    echo "License: Expat"
    sed -n '/^Permission/,$ { s/^$/./; s/^/ /; p }' LICENSE
    echo
    echo "Files: usr/share/doc/cag/examples/docs/time.md"
    echo "Copyright: none, it is in the public domain"
    echo "License: public-domain"
    echo " From the tz database, whose files are in the public domain."
} >"$doc/copyright"

# dpkg-shlibdeps reads a source package's control file: only its names
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
mkdir -p "$work/debian"
printf 'Source: cag\n\nPackage: cag\nArchitecture: any\n' >"$work/debian/control"
depends=$(cd "$work" && dpkg-shlibdeps -O $(find "$root" -type f -size +0 \( -path '*/bin/cag-*' -o -name 'libcag.so.*.*' \) |
        sed 's/^/-e/') 2>log | sed -n 's/^shlibs:Depends=//p')
[ -n "$depends" ] || { cat "$work/log" >&2; exit 1; }

mkdir -p "$root/DEBIAN"
cat >"$root/DEBIAN/control" <<END
Package: cag
Version: $version-1
Architecture: $arch
Maintainer: $maintainer
Installed-Size: $(du -ks --exclude=DEBIAN "$root" | cut -f1)
Depends: $depends
Suggests: bash-completion, libc6-dev, pkg-config, libzstd-dev, libssl-dev, libxxhash-dev, libyaml-dev, libpcre2-dev, libutf8proc-dev, libjansson-dev
Section: utils
Priority: optional
Description: persistent caches for cache-augmented generation
 A language model reads your text once; the attention keys and values it
 computed are kept in a file.  Any number of questions are then answered from
 that file, by any process, on any day, without reading the text again.
 .
 This package holds the programs cag-build, cag-ask, cag-inspect, cag-bench and
 cag-serve, the library libcag with its headers, the manual and examples.  Only
 cag-serve opens a socket, and nothing starts it; models are files that you
 bring.
END
echo "libcag ${version%%.*} cag (>= $version)" >"$root/DEBIAN/shlibs"
echo "activate-noawait ldconfig" >"$root/DEBIAN/triggers"
(cd "$root" && find usr -type f | LC_ALL=C sort | xargs -d '\n' md5sum) \
    >"$root/DEBIAN/md5sums"
chmod -R u=rwX,go=rX "$root"
dpkg-deb --root-owner-group -Zxz --build "$root" "$out"
