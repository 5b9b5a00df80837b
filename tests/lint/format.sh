#!/bin/sh
# The formatter changes nothing.  Its output differs between versions, so
# another one than the tree was formatted with is no judge.
exec perl -I. -e '
require "./tests/lint/lint.pl";
my $tool = (grep { (`$_ --version 2>/dev/null` // "") =~ /version 14\./ }
            "clang-format-14", "clang-format")[0];
if (!$tool) {
    skip("the sources are formatted", "no clang-format 14");
    finish();
}
my @files = grep { m{\.[ch]$} && -e } split /\n/,
    `git ls-files cmd include kernels libcore tests 2>/dev/null`;
@files = grep { -e } glob("cmd/{*,*/*}.[ch] include/{*,*/*}.h kernels/{*,*/*}.[ch] libcore/{*/*,*/*/*}.[ch] tests/*/*.[ch]")
    unless @files;
my %wrong;
for (split /\n/, `$tool --dry-run @files 2>&1`) {
    $wrong{$1} //= "$1:$2: make format" if /^(\S+?):(\d+):\d+: /;
}
verdict("the sources are formatted", map { $wrong{$_} } sort keys %wrong);
finish();
'
