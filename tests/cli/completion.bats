#!/usr/bin/env bats
# --completion: what the shells make of the scripts, and that the option
# table, the manual and all three scripts list the same options.

bats_require_minimum_version 1.5.0

setup() {
    export PATH="${CAG_BIN:-$BATS_TEST_DIRNAME/../../build/release}:$PATH"
    export HOME="$BATS_TEST_TMPDIR" LC_ALL=C.UTF-8
    unset "${!CAG_@}" "${!XDG_@}"
    man="$BATS_TEST_DIRNAME/../../man"
    tools="cag-ask cag-bench cag-build cag-inspect cag-serve"
    cd "$BATS_TEST_TMPDIR" || return 1
    mkdir dir && : >a.kvc && : >"b c.kvc" && : >notes.md
}

# in_bash WORD...: what bash offers for the last word, one a line
in_bash() {
    local tool=$1 n=$#
    bash -c 'eval "$("$0" --completion bash)"
        n=$1; shift
        COMP_WORDS=("$@") COMP_CWORD=$((n - 1))
        f=$(complete -p "$0"); f=${f#*-F }; f=${f%% *}
        "$f" "$0" "${COMP_WORDS[COMP_CWORD]}" x
        printf "%s\n" "${COMPREPLY[@]}"' "$tool" "$n" "$@" 2>&1 | sort
}

# Long options in the manual page of a tool.
# ... whose options of the engine stand in cag(7), once for all tools
in_manual() {
    {
        cat "$man/$1.1"
        ! grep -q '^\.It Engine options' "$man/$1.1" ||
            sed -n '/^\.Ss Engine options/,/^\.Sh/p' "$man/cag.7"
    } | sed -n 's/^\.It .*Fl -\([a-z0-9-]*\).*/--\1/p' | sort -u
}

@test "bash completes options, values and files" {
    [ "$(in_bash cag-build --co)" = $'--codec\n--color\n--completion' ]
    [ "$(in_bash cag-build --codec f16)" = $'f16\nf16z' ]
    [ "$(in_bash cag-build --codec = f16)" = $'f16\nf16z' ]
    [ "$(in_bash cag-build --codec =)" = $'f16\nf16z\nf32\nq8h' ]
    [ "$(in_bash cag-build -m model --recode "")" = $'f16\nf16z' ]
    [ "$(in_bash cag-build --device c)" = $'cpu\ncuda' ]
    [ "$(in_bash cag-build -o "")" = $'a.kvc\nb c.kvc\ndir\nnotes.md' ]
    [ "$(in_bash cag-build --label "")" = "" ]
    in_bash cag-build --chat-template "" | grep -qx chatml
    [ "$(in_bash cag-build --chat-template zz)" = "" ]
    [ "$(in_bash cag-build n)" = notes.md ]
}

@test "bash completes operands: caches and directories, or commands" {
    [ "$(in_bash cag-ask "")" = $'a.kvc\nb c.kvc\ndir' ]
    [ "$(in_bash cag-inspect -t -- "")" = $'a.kvc\nb c.kvc\ndir' ]
    [ "$(in_bash cag-ask -- -)" = "" ]
    [ "$(in_bash cag-ask --file n)" = notes.md ]
    in_bash cag-bench "" | grep -qx probe
    in_bash cag-bench "" | grep -qx "b c.kvc"
    [ "$(in_bash cag-bench run "")" = $'a.kvc\nb c.kvc\ndir' ]
    [ "$(in_bash cag-bench probe --kv "")" = $'f16\nf32' ]
    [ "$(in_bash cag-bench probe --ids n)" = notes.md ]
    [ "$(in_bash cag-bench --vers)" = --version ]
}

@test "bash offers exactly the options of the manual" {
    for t in $tools; do
        {
            in_bash "$t" -
            [ $t != cag-bench ] || for c in $(in_bash $t "" | grep -vE '^(dir|.*\.kvc)$'); do
                in_bash $t "$c" -
            done
        } | grep '^--' | sort -u >"$t.bash"
        in_manual "$t" | diff "$t.bash" -
        [ "$(wc -l <"$t.bash")" -gt 8 ]
    done
}

@test "zsh loads the scripts, and they pass on the options of the manual" {
    command -v zsh >/dev/null || skip "no zsh"
    for t in $tools; do
        "$t" --completion zsh >_$t
        zsh -n _$t
        [ "$(head -n 1 _$t)" = "#compdef $t" ]
        # what would reach _arguments, seen through a stand-in
        for c in "" $([ $t != cag-bench ] || in_bash cag-bench "" | grep -vE '^(dir|.*\.kvc)$'); do
            C=$c zsh -f -c '
                _arguments() { print -rl -- "$@" }
                fpath=($PWD); autoload -Uz +X '"_$t"'
                words=('"$t"' $C x); CURRENT=$#words
                '"_$t"
        done >args
        sed -n 's/^\(([^)]*)\|\*\)*\(--[a-z0-9-]*\)=*\[.*/\2/p' args | sort -u >"$t.zsh"
        in_manual "$t" | diff "$t.zsh" -
    done
    cag-ask --completion zsh | grep -qF -- ":stale:(error warn ignore)'"
    cag-ask --completion zsh | grep -qF -- "'*:file:_files -g \"*.kvc\"'"
}

@test "fish completes options, values and operands" {
    command -v fish >/dev/null || skip "no fish"
    for t in $tools; do
        "$t" --completion fish >$t.fish
        fish -n $t.fish
    done
    in_fish() { fish --no-config -c "source $1.fish; complete -C '$2'"; }
    [ "$(in_fish cag-build "cag-build --codec f16" | cut -f1)" = $'f16\nf16z' ]
    [ "$(in_fish cag-build "cag-build --cod" | cut -f1)" = --codec ]
    in_fish cag-bench "cag-bench " | grep -q '^probe'
    in_fish cag-bench "cag-bench probe --i" | grep -q -- '^--ids'
    in_fish cag-ask "cag-ask a" | grep -qx a.kvc
    for t in $tools; do
        sed -n 's/.* -l \([a-z0-9-]*\) .*/--\1/p' $t.fish | sort -u >"$t.opts"
        in_manual "$t" | diff "$t.opts" -
    done
}

@test "an unknown shell is wrong usage; a command has no script of its own" {
    run cag-ask --completion csh
    [ "$status" -eq 64 ]
    [[ $output == *"bash, zsh, fish"* ]]
    run cag-bench probe --completion zsh
    [ "$status" -eq 64 ]
    [[ $output == *"cag-bench --completion zsh"* ]]
    run cag-ask --completion bash
    [ "$status" -eq 0 ]
}
