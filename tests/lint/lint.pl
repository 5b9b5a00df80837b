# lint.pl - shared by the lint scripts: files, and C without comments.
use strict;
use warnings;

my ($n, $bad) = (0, 0);

# All C files below the given directories.
sub c_files {
    my @out;
    for my $dir (@_) {
        push @out, glob "$dir/*.[ch]" if -d $dir;
    }
    return sort @out;
}

sub slurp {
    my $path = shift;
    open my $f, '<', $path or die "$path: $!\n";
    local $/;
    return scalar <$f>;
}

# The text with comments blanked, and strings too unless $keep_strings;
# line numbers stay.
sub code {
    my ($path, $keep_strings) = @_;
    my $s = slurp($path);
    my $blank = sub { my $t = shift; $t =~ s/[^\n]/ /g; $t };
    $s =~ s{(/\*.*?\*/|//[^\n]*)|("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')}{
        defined $1 ? $blank->($1) : $keep_strings ? $2 : $blank->($2)}gse;
    return $s;
}

# One TAP test: ok if there are no complaints.
sub verdict {
    my ($name, @complaints) = @_;
    $n++;
    print @complaints ? "not ok" : "ok", " $n - $name\n";
    if (@complaints) {
        $bad++;
        print STDERR "# $_\n" for @complaints;
    }
}

sub skip {
    my ($name, $why) = @_;
    $n++;
    print "ok $n - $name # SKIP $why\n";
}

sub finish {
    print "1..$n\n";
    exit($bad ? 1 : 0);
}

1;
