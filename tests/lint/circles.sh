#!/bin/sh
# Circles of files, read from the linker's symbol tables: a file that needs
# another that needs it.  Only the template evaluator is one by nature.
exec perl -I. -e '
require "./tests/lint/lint.pl";
my $root = $ENV{CAG_BIN} || "build/release";
my (%def, %need, %seen, @twice);
for my $o (glob("$root/obj/libcore/{*,*/*}/*.o $root/obj/kernels/{*,*/*}.o")) {
    my $f = $o =~ s{^\Q$root\E/obj/}{}r =~ s{\.o$}{.c}r;
    next unless -e $f;
    for (split /\n/, `nm $o 2>/dev/null`) {
        $def{$1} = $f if /^[0-9a-f]+ [TDRBVWC] (\S+)$/;
        $need{$f}{$1} = 1 if /^\s+U (\S+)$/;
    }
}
my %edge;
for my $f (keys %need) {
    for (keys %{$need{$f}}) {
        $edge{$f}{$def{$_}} = $_ if $def{$_} && $def{$_} ne $f;
    }
}
# strongly connected parts, by Tarjan
my ($i, @stack, %low, %num, %on, @parts) = (0);
sub visit {
    my $v = shift;
    $num{$v} = $low{$v} = ++$i;
    push @stack, $v; $on{$v} = 1;
    for my $w (sort keys %{$edge{$v} || {}}) {
        if (!$num{$w}) { visit($w); $low{$v} = $low{$w} if $low{$w} < $low{$v}; }
        elsif ($on{$w}) { $low{$v} = $num{$w} if $num{$w} < $low{$v}; }
    }
    if ($low{$v} == $num{$v}) {
        my @part;
        while (1) { my $w = pop @stack; $on{$w} = 0; push @part, $w; last if $w eq $v; }
        push @parts, [sort @part] if @part > 1;
    }
}
no warnings "recursion";
$num{$_} || visit($_) for sort keys %edge;
my @wrong;
for my $p (@parts) {
    next unless grep { !m{^libcore/template/} } @$p;
    my %in = map { $_ => 1 } @$p;
    my @why;
    for my $f (@$p) {
        push @why, map { "  $f needs $edge{$f}{$_} of $_" } grep { $in{$_} } sort keys %{$edge{$f}};
    }
    push @wrong, "circle: @$p", @why;
}
verdict("no circle of files outside template/", %edge ? @wrong : "no objects in $root/obj");
for my $f (split /\n/, `git ls-files "*.c" "*.h" "*.cu" "*.cuh" "*.cc" 2>/dev/null`) {
    next unless $f =~ m{^(?:cmd|include|kernels|libcore|tests)/};
    my ($name) = $f =~ m{([^/]+)$};
    # a public header may be called as the file whose face it is
    $name = "cag/$name" if $f =~ m{^include/};
    push @twice, "$f and $seen{$name} have one name" if $seen{$name};
    $seen{$name} = $f;
}
verdict("no file name occurs twice", @twice);
finish();
'
