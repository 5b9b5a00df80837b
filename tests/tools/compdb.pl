#!/usr/bin/perl
# compile_commands.json from the commands that make would run (stdin).
use strict;
use warnings;
use Cwd;

my $dir = getcwd();
my @rows;
while (<STDIN>) {
    chomp;
    next unless / -c -o \S+ (\S+\.c)$/;
    my $file = $1;
    s/(["\\])/\\$1/g;
    push @rows, qq({"directory":"$dir","file":"$file","command":"$_"});
}
print "[\n", join(",\n", @rows), "\n]\n";
