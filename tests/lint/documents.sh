#!/bin/sh
# libcore/README.md names every file of the library, and nothing else.
exec perl -I. -e '
require "./tests/lint/lint.pl";
my (%is, %named, $dir);
for (glob "libcore/*/*.[ch] libcore/*/*/*.[ch]") {
    m{^libcore/(.*)/([^/]+)\.[ch]$} and $is{"$1/$2"} = 1;
}
for (split /\n/, slurp("libcore/README.md")) {
    $dir = $1 if m{^`([\w/]+)/`$};
    $named{"$dir/$1"} = 1 if $dir && /^- (\w+): \S/;
}
verdict("libcore/README.md has a line for each file",
        (map { "$_: no line" } grep { !$named{$_} } sort keys %is),
        (map { "$_: no such file" } grep { !$is{$_} } sort keys %named));
finish();
'
