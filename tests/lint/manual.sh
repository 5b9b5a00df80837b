#!/bin/sh
# Manual pages are clean, and list exactly the options that --help all lists;
# --help fits a screen.
exec perl -I. -e '
require "./tests/lint/lint.pl";
my @pages = glob "man/*.[1-8]";
for my $page (@pages) {
    my $out = `mandoc -Tlint -W style $page 2>&1`;
    # no BSD release ships these pages; other tools of ours may come later
    $out = join "", grep { !/referenced manual not found|missing date|not in the mdoc database|outdated mandoc.db/ } split /^/, $out;
    verdict("mandoc -Tlint $page", $out ? split(/\n/, $out) : ());
}
skip("manual pages", "there are none yet") unless @pages;
# what most people read with is troff, which knows limits that mandoc does not
if (`groff --version 2>/dev/null`) {
    for my $page (@pages) {
        my $out = `groff -mandoc -t -Tutf8 -w all $page 2>&1 >/dev/null`;
        verdict("groff $page", $out ? split(/\n/, $out) : ());
    }
} else {
    skip("manual pages by troff", "no groff here");
}
my $engine = slurp("man/cag.7");
for my $tool (map { m{cmd/(cag-\w+)\.c} } glob "cmd/cag-*.c") {
    my $exe = ($ENV{CAG_BIN} || "build/release") . "/$tool";
    if (!-f "man/$tool.1") {
        skip("options of $tool", "no man/$tool.1 yet");
        next;
    }
    # only what follows the option list counts, not the examples above it; a
    # tool with commands has a list for each
    my $top = `$exe --help all </dev/null`;
    my @commands = $top =~ /; commands:\s((?:.+\n)+)/ ? split(/,\s+/, $1 =~ s/\n$//r) : ();
    my %help;
    for my $text ($top, map { scalar `$exe $_ --help all </dev/null` } @commands) {
        my ($list) = $text =~ /^Options:\n(.*)/ms;
        $help{$_} = 1 for ($list // "") =~ /--([a-z0-9][a-z0-9-]+)/g;
    }
    # the options of the engine stand in one place for all
    my $page = slurp("man/$tool.1");
    $page .= ($engine =~ /^\.Ss Engine options\n(.*?)^\.S/ms)[0] if $page =~ /^\.It Engine options/m;
    my %man = map { $_ => 1 } $page =~ /^\.It (?:.*?)Fl -([a-z0-9-]+)/gm;
    my @wrong = ((map { "--$_ is not in man/$tool.1" } grep { !$man{$_} } sort keys %help),
                 (map { "--$_ is in man/$tool.1 only" } grep { !$help{$_} } sort keys %man));
    push @wrong, "--help lists no options" unless %help;
    for my $call ($tool, map { "$tool $_" } @commands) {
        my $args = $call =~ s/^\S+ ?//r;
        my @lines = split /\n/, `$exe $args --help </dev/null`;
        push @wrong, "$call --help has " . @lines . " lines, a screen 24" if @lines > 23;
        push @wrong, map { "$call --help: a line of " . length }
            grep { length > 80 } @lines, split /\n/, `$exe $args --help all </dev/null`;
    }
    verdict("options of $tool are those of its manual", @wrong);
}
finish();
'
