#!/bin/sh
# Global symbols of libcag.a carry the prefix of their module, which is
# a word of the file's name or a known one; only cag_ ones
# are visible to a program.
exec perl -I. -e '
require "./tests/lint/lint.pl";
my $lib = ($ENV{CAG_BIN} || "build/release") . "/libcag.a";
my @prefix = qw(cag_ arena_ buf_ file_ hash_ json_ jv_ mem_ pool_ rd_ sha256_
    text_ utf8_ xxh3_ gguf_ st_ sniff_ tok_ bpe_ pretok_ jinja_ chat_ tokenizer_
    model_ weights_ config_ fingerprint_ rope_ kvc_ manifest_ engine_ session_
    sampler_ forward_ backend_ kvcache_ prefix_ build_ ask_ kernels_ pipeline_
    jval_ f16_ bf16_ f32_ rows_ tile_);
my (@wrong, $member);
my $listing = `nm -g --defined-only $lib 2>/dev/null`;
for (split /\n/, $listing) {
    $member = $1, next if /^(\S+)\.o:$/;
    next unless /^[0-9a-f]+ ([A-Z]) (\S+)$/;
    my $s = $2;
    next if grep { index(lc $s, $_) == 0 } @prefix;
    next if grep { "${s}_" =~ /^\Q$_\E_/i } split /_/, $member;
    next if $member =~ /^jinja/ && $s =~ /^j[a-z]+(?:_|$)/;
    next if $s eq "note";
    next if $s =~ /_(?:ref|scalar|avx2|avx512)$/;
    next if $s =~ /^__|^_ZN|asan|ubsan|odr/;
    push @wrong, "$member.c: $s has no prefix of a module";
}
verdict("prefixes of symbols", $listing ? @wrong : "$lib is missing");
my @seen;
for my $o (glob(($ENV{CAG_BIN} || "build/release") . "/obj/libcore/{*,*/*}/*.o")) {
    for (split /\n/, `readelf -sW $o 2>/dev/null`) {
        next unless /\b(?:FUNC|OBJECT)\s+GLOBAL\s+DEFAULT\s+\d+\s+(\S+)$/;
        push @seen, "$o: $1 is visible" unless $1 =~ /^cag_|^__/;
    }
}
verdict("only cag_ symbols are visible", @seen);
finish();
'
