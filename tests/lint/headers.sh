#!/bin/sh
# Every header compiles alone; the public ones as C++ too.
exec perl -I. -e '
require "./tests/lint/lint.pl";
my $cc = $ENV{CC} || "cc";
my $flags = "-std=c11 -D_GNU_SOURCE -Wall -Wextra -Wpedantic -Werror -Iinclude -Ilibcore -I.";
for my $dir ("include", "include/cag", "include/cag/tool", (grep { -d } glob("libcore/* libcore/*/* kernels kernels/*")), "cmd", (grep { -d } glob "cmd/*")) {
    my @wrong;
    for my $h (glob "$dir/*.h") {
        next if $h =~ m{_simd\.h$|/cuda/|/x86/(gemm_u4_x86|attention_bf16)\.h$}; # templates
        my $isa = $h =~ /_amx/ ? "-mamx-tile -mamx-bf16 -mavx512bf16 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mf16c"
                : $h =~ /_avx512/ ? "-mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mf16c"
                : $h =~ m{_avx2|/x86/} ? "-mavx2 -mfma -mf16c" : "";
        my $out = `echo "#include <$h>\nextern int lint;" | $cc $flags $isa -fsyntax-only -x c - 2>&1`;
        push @wrong, "$h:\n$out" if $?;
    }
    verdict("headers of $dir compile alone", @wrong);
}
if (`c++ --version 2>/dev/null`) {
    my $out = `echo "#include <cag.h>\nextern int lint;" | c++ -std=c++17 -Wall -Wextra -Werror -Iinclude -fsyntax-only -x c++ - 2>&1`;
    verdict("cag.h compiles as C++", $? ? $out : ());
} else {
    skip("cag.h compiles as C++", "no C++ compiler");
}
finish();
'
