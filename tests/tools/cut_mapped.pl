#!/usr/bin/perl
# cut_mapped.pl FILE BYTES COMMAND...
#
# Run COMMAND, stop it as soon as it has mapped FILE, cut FILE to BYTES, let it
# go on, and end with its exit status (128 + signal if it was killed).  Ends
# with 99 when COMMAND was over before FILE could be cut.
use strict;
use warnings;
use Cwd 'abs_path';
use Time::HiRes 'usleep';

my ($file, $bytes, @command) = @ARGV;
my $path = abs_path($file);
my $pid = fork // die "fork: $!\n";
if (!$pid) {
    exec @command or die "$command[0]: $!\n";
}
my $cut;
while (!$cut) {
    open my $maps, '<', "/proc/$pid/maps" or last;
    while (<$maps>) {
        $cut = 1 if index($_, $path) >= 0;
    }
    close $maps;
    last if !$cut && waitpid($pid, 1) == $pid;
}
if (!$cut) {
    warn "cut_mapped.pl: $command[0] was too fast\n";
    exit 99;
}
kill 'STOP', $pid;
truncate $path, $bytes or die "$path: $!\n";
kill 'CONT', $pid;
waitpid $pid, 0;
exit($? & 127 ? 128 + ($? & 127) : $? >> 8);
