#!/usr/bin/perl
# Run all tests as one `prove` would, and end with
#   N passed, N failed, N skipped
# counting single tests, after the ten programs that took longest.  A program that dies, or runs fewer tests than it
# announced, counts as one failure more.
use strict;
use warnings;
use TAP::Harness;

$| = 1;
my $jobs = shift;
die "check.pl: no tests\n" unless @ARGV;
my $harness = TAP::Harness->new({
    jobs      => $jobs,
    exec      => ['sh', 'tests/tools/tap.sh'],
    color     => -t STDOUT ? 1 : 0,
    timer     => 1,
    verbosity => 0,
    failures  => 1,
    comments  => 1,     # what a failed test said of itself
    merge     => 0,
});
my $all = $harness->runtests(@ARGV);
my ($failed, $skipped) = (scalar $all->failed, scalar $all->skipped);
for my $parser ($all->parsers(@ARGV)) {
    $failed++ if !$parser->failed
        && ($parser->parse_errors || $parser->exit || $parser->wait);
    $skipped++ if $parser->skip_all;
}
my %took = map { $_->[0] => $_->[1]->end_time - $_->[1]->start_time }
    map { [$_, $all->parsers($_)] } @ARGV;
my @slow = (sort { $took{$b} <=> $took{$a} } keys %took)[0 .. ($#ARGV < 9 ? $#ARGV : 9)];
print "slowest: ", join(", ", map { sprintf "%s %.0f s", s{.*/}{}r, $took{$_} } @slow), "\n"
    if @ARGV > 10;
my $passed = $all->passed - $all->skipped;
print "$passed passed, $failed failed, $skipped skipped\n";
exit($failed || !$passed ? 1 : 0);
