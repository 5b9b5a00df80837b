#!/bin/sh
# Who may include whom (see CONTRIBUTING.md), and which library has one file.
exec perl -I. -e '
require "./tests/lint/lint.pl";
my %may = (      # directory -> what "..." and <cag...> may begin with
    # a main program: its own parts, what all share, the public headers
    "cmd"                  => [qw(cmd/ cag)],
    "cmd/cli"              => [qw(cmd/cli/ cag)],
    (map { ("cmd/$_"       => ["cmd/$_/", qw(cmd/cli/ cag)]) } qw(ask bench build inspect)),
    # it parses what strangers send: the strict JSON, hashes, checked memory
    "cmd/serve"            => [qw(cmd/serve/ cag util/)],
    "include"              => [qw(cag/)],
    "include/cag"          => [map { "cag/$_." }
                                qw(ask backend base batch build error evidence kvc
                                   manifest model session show tokenizer)],
    "include/cag/tool"     => [qw(cag/)],
    "kernels"              => [qw(kernels/)],
    "kernels/x86"          => [qw(kernels/)],
    "kernels/cuda"         => [qw(kernels/)],
    "libcore/util"         => [qw(cag util/)],
    "libcore/format"       => [qw(cag format/ util/)],
    "libcore/template"     => [qw(cag template/ util/)],
    "libcore/tokenizer"    => [qw(cag tokenizer/ format/ util/)],
    "libcore/model"        => [qw(cag model/ tokenizer/ format/ util/ kernels/)],
    "libcore/kvc"          => [qw(cag kvc/ tokenizer/ util/)],
    "libcore/engine"       => [qw(cag engine/ kvc/ model/ util/ kernels/)],
    "libcore/prompt"       => [qw(cag prompt/ model/ tokenizer/ template/ util/)],
    "libcore/source"       => [qw(cag source/ kvc/ util/)],
    "libcore/binding"      => [qw(cag binding/ source/ model/ kvc/ util/)],
    "libcore/build"        => [qw(cag build/ binding/ source/ prompt/ engine/ kvc/ model/
                                  tokenizer/ util/ kernels/)],
    "libcore/evidence"     => [qw(cag evidence/ util/)],
    "libcore/passage"      => [qw(cag passage/ evidence/ engine/ util/)],
    "libcore/generate"     => [qw(cag generate/ util/)],
    "libcore/ask"          => [qw(cag ask/ generate/ passage/ evidence/ binding/ prompt/ engine/
                                  kvc/ model/ tokenizer/ util/)],
    "libcore/batch"        => [qw(cag batch/ ask/ evidence/ engine/ kvc/ model/ tokenizer/
                                  util/)],
    "libcore/eval"         => [qw(cag eval/ ask/ passage/ evidence/ kvc/ tokenizer/ util/)],
    "libcore/bench"        => [qw(cag bench/ batch/ ask/ build/ binding/ source/ prompt/ engine/ kvc/
                                  model/ tokenizer/ format/ util/ kernels/)],
);
# the rooms inside engine know only what is theirs, and engine none of them
$may{"libcore/engine/$_"} = $may{"libcore/engine"} for qw(cpu cuda split);
my %one = (      # header -> the only file
    "jansson.h" => "libcore/util/json.c", "xxhash.h" => "libcore/util/hash.c",
    "openssl/" => "libcore/util/hash.c", "utf8proc.h" => "libcore/util/text.c",
    "zstd" => "libcore/kvc/kvc_codec.c", "pcre2.h" => "libcore/tokenizer/pretok.c",
    "yaml.h" => "libcore/source/manifest.c",
);
my @dirs = (keys %may, grep { -d && !$may{$_} } glob "libcore/* libcore/*/* kernels/* cmd/*");
for my $dir (sort @dirs) {
    my @wrong;
    for my $file (c_files($dir)) {
        my $n = 0;
        for (split /\n/, code($file, 1)) {
            $n++;
            next unless /^\s*#\s*include\s*([<"])([^>"]+)[>"]/;
            my ($kind, $what) = ($1, $2);
            my $ours = $kind eq "\"" || $what =~ m{^cag[./]};
            if ($dir =~ m{^(libcore/engine|kernels)(?:/(\w+))?$}
                && $what =~ m{^(?:engine|kernels)/(\w+)/}
                && $what =~ m{^(?:libcore/)?@{[$1 =~ s{.*/}{}r]}/}
                && $1 && ($2 // "") ne ($what =~ m{/(\w+)/})[0]) {
                push @wrong, "$file:$n: $what is another room";
            }
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
