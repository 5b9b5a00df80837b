#!/bin/sh
# Calls that are not allowed, and where.
exec perl -I. -e '
require "./tests/lint/lint.pl";
my @core = (grep { -d } glob("libcore/* libcore/*/* kernels kernels/*"));
my @all = (@core, "cmd", (grep { -d } glob "cmd/*"), "include", "include/cag");

sub calls {
    my ($name, $re, $except, @dirs) = @_;
    my @wrong;
    for my $file (c_files(@dirs)) {
        next if $except && $file =~ $except;
        my $n = 0;
        for (split /\n/, code($file)) {
            $n++;
            push @wrong, "$file:$n: $1" while /(?<![\w.>])($re)\s*\(/g;
        }
    }
    verdict($name, @wrong);
}
calls("unbounded or silent string functions",
      qr/strcpy|strcat|sprintf|vsprintf|strtok|atoi|atol|atoll|atof|gets|alloca/,
      undef, @all, glob("tests/*"));
calls("in the library only mem.c allocates",
      qr/malloc|calloc|realloc|reallocarray|free|strdup|strndup|asprintf|posix_memalign|aligned_alloc/,
      qr{^libcore/util/mem\.c$}, @core, "include", "include/cag");
calls("the library does not print or end the program",
      qr/printf|puts|putchar|perror|fprintf|exit|_exit|abort|signal|sigaction|setlocale|system|popen/,
      qr{^libcore/source/source_filter\.c$}, @core);   # it prepares a child for exec
calls("the library reads no environment", qr/getenv|secure_getenv|setenv/,
      qr{^kernels/kernels\.c$}, @core);
my @places;
for my $file (split /\n/, `git ls-files 2>/dev/null`) {
    next if !-T $file || $file =~ m{^tests/lint/};
    my $n = 0;
    for (split /\n/, slurp($file)) {
        $n++;
        push @places, "$file:$n: names a place outside the tree"
            if m{(?:^|[\s"\x27=(])(?:/work/|/home/\w|\.\./shared)};
    }
}
verdict("nothing names a place outside the tree", @places);
my @long;
for my $file (c_files(@all)) {
    my $lines = () = slurp($file) =~ /\n/g;
    print STDERR "# warning: $file has $lines lines: it may hold two ideas\n" if $lines > 700;
    push @long, "$file:1: does not open with its idea" if slurp($file) !~ m{^/\*};
}
verdict("every file opens with its idea", @long);
finish();
'
