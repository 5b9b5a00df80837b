#!/bin/sh
# Who may include whom (see CONTRIBUTING.md), and which library has one file.
exec perl -I. -e '
require "./tests/lint/lint.pl";
my %may = (      # directory -> what "..." and <cag...> may begin with
    "cmd"               => [qw(cmd/ cag)],
    "include"           => [qw(cag/)],
    "include/cag"       => [qw(cag/)],
    "kernels"           => [qw(kernels/)],
    "libcore/util"      => [qw(cag util/)],
    "libcore/format"    => [qw(cag format/ util/)],
    "libcore/manifest"  => [qw(cag manifest/ util/)],
    "libcore/kvc"       => [qw(cag kvc/ tokenizer/ util/)],
    "libcore/tokenizer" => [qw(cag tokenizer/ format/ util/)],
    "libcore/model"     => [qw(cag model/ tokenizer/ format/ util/ kernels/)],
    "libcore/engine"    => [qw(cag engine/ kvc/ model/ tokenizer/ util/ kernels/)],
    "libcore/pipeline"  => [qw(cag pipeline/ engine/ kvc/ manifest/ model/ tokenizer/ format/ util/ kernels/)],
);
my %one = (      # header -> the only file
    "jansson.h" => "libcore/util/json.c", "xxhash.h" => "libcore/util/hash.c",
    "openssl/" => "libcore/util/hash.c", "utf8proc.h" => "libcore/util/text.c",
    "zstd" => "libcore/kvc/kvc_codec.c", "pcre2.h" => "libcore/tokenizer/pretok.c",
    "yaml.h" => "libcore/source/manifest.c",
);
my @dirs = (keys %may, grep { -d && !$may{$_} } glob "libcore/*");
for my $dir (sort @dirs) {
    my @wrong;
    for my $file (c_files($dir)) {
        my $n = 0;
        for (split /\n/, code($file, 1)) {
            $n++;
            next unless /^\s*#\s*include\s*([<"])([^>"]+)[>"]/;
            my ($kind, $what) = ($1, $2);
            my $ours = $kind eq "\"" || $what =~ m{^cag[./]};
            if ($ours && !grep { index($what, $_) == 0 } @{$may{$dir} || []}) {
                push @wrong, "$file:$n: may not include $what";
            }
            for my $h (keys %one) {
                push @wrong, "$file:$n: only $one{$h} includes $what"
                    if $kind eq "<" && index($what, $h) == 0 && $file ne $one{$h};
            }
        }
    }
    verdict("layers of $dir", @wrong);
}
finish();
'
