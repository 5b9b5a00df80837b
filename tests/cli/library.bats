#!/usr/bin/env bats
# What `make install` puts where, and the installed library as an outside
# program meets it: pkg-config, C and C++, shared and static.

bats_require_minimum_version 1.5.0

setup_file() {
    export mode=${CAG_MODE:-release}
    [ "$mode" = release ] || return 0
    export top="$BATS_TEST_DIRNAME/../.." root="$BATS_FILE_TMPDIR/root"
    export HOME="$BATS_FILE_TMPDIR" LC_ALL=C.UTF-8
    unset "${!CAG_@}" "${!MAKE@}" MFLAGS DESTDIR XDG_CACHE_HOME HF_HOME
    make -s -C "$top" install DESTDIR="$root" PREFIX=/usr LIBDIR=/usr/lib >&2
    export PATH="$root/usr/bin:$PATH"
    export PKG_CONFIG_PATH="$root/usr/lib/pkgconfig" PKG_CONFIG_SYSROOT_DIR=
    cd "$BATS_FILE_TMPDIR" || return 1
    echo "The Sparrow-7 flies 47 minutes." >kb.md
    cag-build -q -m "$top/tests/golden/models/qwen3" -o kb.kvc kb.md
}

setup() {
    [ "$mode" = release ] || skip "the release build is what is installed"
    cd "$BATS_FILE_TMPDIR" || return 1
    flags="-Wall -Wextra -Wpedantic -Werror"
}

# The flags of an installed copy below $root: its prefix is moved.
pc() { pkg-config --define-variable=prefix="$root/usr" "$@" cag; }

@test "the installed tree has the files of a system, with their modes" {
    for f in bin/cag-ask bin/cag-bench bin/cag-build bin/cag-inspect; do
        [ "$(stat -c %a "$root/usr/$f")" = 755 ]
    done
    for f in include/cag.h include/cag/ask.h include/cag/base.h lib/libcag.a \
        lib/pkgconfig/cag.pc share/man/man1/cag-ask.1 share/man/man3/libcag.3 \
        share/man/man5/kvc.5 share/man/man7/cag.7 \
        share/bash-completion/completions/cag-ask \
        share/zsh/site-functions/_cag-build \
        share/fish/vendor_completions.d/cag-bench.fish \
        share/doc/cag/README.md share/doc/cag/examples/embed.c \
        share/doc/cag/examples/make/handbook/badge.md; do
        [ "$(stat -c %a "$root/usr/$f")" = 644 ]
    done
    # as many completions for each shell as there are commands
    n=$(ls "$root/usr/bin" | wc -l)
    for d in bash-completion/completions zsh/site-functions \
        fish/vendor_completions.d; do
        [ "$(ls "$root/usr/share/$d" | wc -l)" = "$n" ]
    done
    # the headers of the programs stay here, and no installed one needs them
    [ ! -e "$root/usr/include/cag/tool" ]
    run grep -l 'include <cag/tool' "$root"/usr/include/cag.h "$root"/usr/include/cag/*.h
    [ "$status" -eq 1 ]
    # no word of the build tree or of DESTDIR is left in text files
    run grep -rlF -e "$root" -e "$(cd "$top" && pwd)" "$root/usr/share" \
        "$root/usr/include" "$root/usr/lib/pkgconfig"
    [ "$status" -eq 1 ]
}

@test "bash finds an installed completion by the name of its command" {
    run bash -c '. "$root/usr/share/bash-completion/completions/cag-ask"
        complete -p cag-ask'
    [[ $output == *"-F _cag_ask cag-ask" ]]
}

@test "libcag.so.0 has its soname and exports cag_* only, under CAG_0" {
    so=$root/usr/lib/libcag.so
    [ "$(readlink "$so")" = libcag.so.0 ]
    readelf -d "$so" | grep -q 'SONAME.*\[libcag\.so\.0\]'
    nm -D --defined-only "$so" >symbols
    [ "$(grep -c ' T cag_[a-z0-9_]*@@CAG_0$' symbols)" -gt 60 ]
    run grep -vE ' [TR] cag_[a-z0-9_]*@@CAG_0$| A CAG_0$' symbols
    [ "$output" = "" ]
    # whatever the headers declare is there
    cat "$top"/include/cag/*.h | tr '\n' ' ' |
        grep -oE 'CAG_API[^;(]*\bcag_[a-z0-9_]+ ?\(' | grep -oE 'cag_[a-z0-9_]+ ?\($' |
        tr -d ' (' | sort -u >declared
    sed -n 's/.* T \(cag_[a-z0-9_]*\)@@CAG_0/\1/p' symbols | sort -u >exported
    diff declared exported
}

@test "the library calls nothing that prints, exits or catches signals" {
    nm -D --undefined-only "$root/usr/lib/libcag.so" | sed 's/.* U //; s/@.*//' >used
    # filter.c has signal and _exit, in the child of a fork
    run grep -xE 'exit|printf|puts|putchar|perror|vprintf|fprintf|stdout|stderr|sigaction|setlocale' used
    [ "$output" = "" ]
    [ "$(wc -l <used)" -gt 50 ]
}

@test "embed.c with the shared library: text, progress, and a stop" {
    ${CC:-cc} -std=c11 -D_GNU_SOURCE $flags "$root/usr/share/doc/cag/examples/embed.c" \
        $(pc --cflags --libs) -o embed
    export LD_LIBRARY_PATH="$root/usr/lib"
    ldd embed | grep -q "libcag.so.0 => $root"
    ./embed kb.kvc "How long does it fly?" >out 2>err
    tail -n 1 out | grep -qE '^\([0-9]+ tokens from the cache, [0-9]+ read, 60 written\)$'
    # the same text as the tool gives
    cag-ask -q -n 60 kb.kvc "How long does it fly?" >tool
    head -n -1 out | sed 's/[[:space:]]*$//' | diff - <(sed 's/[[:space:]]*$//' tool)
    ./embed kb.kvc "How long does it fly?" 5 >out
    tail -n 1 out | grep -q ', stopped)$'
    [ "$(head -n 1 out | wc -c)" -le 6 ]
    run ./embed missing.kvc "Why?"
    [ "$status" -eq 1 ]
    [[ $output == "embed: missing.kvc: "*"(missing)" ]]
}

@test "embed.c with the static library needs no libcag.so" {
    static=$(pc --cflags --libs --static)
    ${CC:-cc} -std=c11 -D_GNU_SOURCE $flags "$root/usr/share/doc/cag/examples/embed.c" \
        ${static/-lcag/-l:libcag.a} -o embed-static
    run ldd embed-static
    [[ $output != *libcag* ]]
    ./embed-static kb.kvc "How long does it fly?" >out
    tail -n 1 out | grep -q ' 60 written)$'
}

@test "the headers serve a C++ program" {
    command -v c++ >/dev/null || skip "no C++ compiler"
    cat >ask.cc <<'END'
#include <cag.h>
#include <cstdio>
#include <string>

int main(int, char **argv)
{
    cag_error err = CAG_ERROR_INIT;
    cag_kb_opts opts;
    cag_kb *kb = nullptr;
    cag_prompt_view view{};
    std::string q = "How long?";

    cag_kb_opts_init(&opts);
    opts.no_weights = true;
    cag_status st = cag_kb_open(argv[1], &opts, &kb, &err);
    if (st == CAG_OK)
        st = cag_kb_prompt(kb, q.data(), q.size(), false, &view, &err);
    if (st == CAG_OK)
        std::printf("%.*s\n", static_cast<int>(view.size), view.text);
    cag_free(view.text);
    cag_kb_close(kb);
    return st;
}
END
    c++ -std=c++17 $flags ask.cc $(pc --cflags --libs) -o ask
    LD_LIBRARY_PATH="$root/usr/lib" ./ask kb.kvc >out
    grep -q 'flies 47 minutes' out
    grep -q 'How long?' out
}

@test "make deb: a package that says what it needs, and runs unpacked" {
    command -v dpkg-shlibdeps >/dev/null || skip "no dpkg-dev"
    deb=$top/$(SKIP_DEPS=1 make -s -C "$top" deb | tail -n 1)
    dpkg-deb -f "$deb" Depends | grep -q 'libc6 (>= .*libzstd1.*'
    [ "$(dpkg-deb -f "$deb" Package Version | paste -sd' ')" = \
        "Package: cag Version: $(cag-ask -V | sed -n 's/^cag-ask //p')-1" ]
    dpkg-deb -x "$deb" "$BATS_TEST_TMPDIR/x"
    "$BATS_TEST_TMPDIR/x/usr/bin/cag-ask" -q -n 5 kb.kvc "How long?" >out
    cag-ask -q -n 5 kb.kvc "How long?" | cmp - out
    dpkg-deb -e "$deb" "$BATS_TEST_TMPDIR/x/DEBIAN"
    (cd "$BATS_TEST_TMPDIR/x" && md5sum --quiet -c DEBIAN/md5sums)
    # the list covers every file of the package
    [ "$(wc -l <"$BATS_TEST_TMPDIR/x/DEBIAN/md5sums")" = \
        "$(find "$BATS_TEST_TMPDIR/x/usr" -type f | wc -l)" ]
}

@test "make uninstall takes away all that make install brought" {
    copy="$BATS_TEST_TMPDIR/copy"
    cp -a "$root" "$copy"
    make -s -C "$top" uninstall DESTDIR="$copy" PREFIX=/usr LIBDIR=/usr/lib
    [ -z "$(find "$copy" ! -type d)" ]
}

@test "the programs and the library are hardened" {
    [ "${CAG_MODE:-release}" = release ] || skip "another build"
    command -v readelf >/dev/null || skip "no readelf"
    for f in "$top"/build/release/cag-{ask,bench,build,inspect} "$top"/build/release/libcag.so.*; do
        readelf -d "$f" | grep -q BIND_NOW
        readelf -lW "$f" | grep -q GNU_RELRO
        readelf -lW "$f" | grep GNU_STACK | grep -qv RWE
        readelf --dyn-syms -W "$f" | grep -q __stack_chk_fail
        readelf --dyn-syms -W "$f" | grep -q __snprintf_chk
    done
}
