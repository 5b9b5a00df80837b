#!/usr/bin/perl
# split_gguf.pl IN.gguf OUT N [COUNT]: OUT-00001-of-0000N.gguf ... as llama.cpp's
# gguf-split writes them: all keys in the first, split.* in each, tensors dealt
# out in order.  With "empty" as fifth argument the first part has no tensors;
# COUNT replaces split.tensors.count, for files that lie.
use strict;
use warnings;

my ($in, $out, $n, $count, $empty) = @ARGV;
open my $f, '<:raw', $in or die "$in: $!";
local $/;
my $d = <$f>;
my $p = 24;
my ($n_tensor, $n_kv) = unpack 'x8 Q< Q<', $d;
my @size = (1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8);

sub str { my $k = unpack 'Q<', substr $d, $p, 8; $p += 8 + $k; substr $d, $p - $k, $k }
sub value {
    my ($type) = @_;
    if ($type == 8) { str() }
    elsif ($type == 9) {
        my ($of, $k) = unpack 'L< Q<', substr $d, $p, 12;
        $p += 12;
        if ($of == 8) { str() for 1 .. $k }
        else { $p += $k * $size[$of] }
    } else { $p += $size[$type] }
}

my $kv_begin = $p;
for (1 .. $n_kv) {
    str();
    $p += 4;
    value(unpack 'L<', substr $d, $p - 4, 4);
}
my $kv = substr $d, $kv_begin, $p - $kv_begin;
my @tensor;
for (1 .. $n_tensor) {
    my $name = str();
    my $dims = unpack 'L<', substr $d, $p, 4;
    my $head = substr $d, $p, 4 + 8 * $dims + 4;
    $p += length($head) + 8;
    push @tensor, [$name, $head, unpack 'Q<', substr $d, $p - 8, 8];
}
my $data = ($p + 31) & ~31;
my @by_off = sort { $a->[2] <=> $b->[2] } @tensor;
for my $i (0 .. $#by_off) {
    my $end = $i < $#by_off ? $by_off[$i + 1][2] : length($d) - $data;
    push @{$by_off[$i]}, substr $d, $data + $by_off[$i][2], $end - $by_off[$i][2];
}

my $share = $n - ($empty ? 1 : 0);
for my $no (0 .. $n - 1) {
    my $k = $no - ($empty ? 1 : 0);
    my @part = $k < 0 ? () : @tensor[$n_tensor * $k / $share .. $n_tensor * ($k + 1) / $share - 1];
    my ($table, $bytes, $n_own) = ('', '', 3);
    for my $t (@part) {
        $bytes .= "\0" x (-length($bytes) % 32);
        $table .= pack('Q</a* a* Q<', $t->[0], $t->[1], length $bytes);
        $bytes .= $t->[3];
    }
    my $keys = $no ? '' : $kv;
    $keys .= pack 'Q</a* L< S<', 'split.no', 2, $no;
    $keys .= pack 'Q</a* L< S<', 'split.count', 2, $n;
    $keys .= pack 'Q</a* L< l<', 'split.tensors.count', 5, $count || $n_tensor;
    my $file = 'GGUF' . pack('L< Q< Q<', 3, scalar @part, ($no ? 0 : $n_kv) + 3) . $keys . $table;
    $file .= "\0" x (-length($file) % 32);
    open my $o, '>:raw', sprintf '%s-%05d-of-%05d.gguf', $out, $no + 1, $n or die $!;
    print $o $file, $bytes;
    close $o or die $!;
}
