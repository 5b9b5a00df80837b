#!/bin/sh
# Run one test program so that it speaks TAP: a .bats file, a lint script, a
# replay of a fuzz corpus ("replay:NAME"), or a cmocka program.
t=$1
limit=${CAG_TEST_TIMEOUT:-900}
exec </dev/null
case $t in
*.bats) exec timeout --foreground "$limit" bats --tap "$t" ;;
*.sh) exec timeout --foreground "$limit" sh "$t" ;;
*/replay/*)
    exec timeout --foreground "$limit" "$t" "tests/fuzz/corpus/${t##*/}" ;;
*)
    CMOCKA_MESSAGE_OUTPUT=TAP
    export CMOCKA_MESSAGE_OUTPUT
    exec timeout --foreground "$limit" "$t" ;;
esac
