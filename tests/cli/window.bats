#!/usr/bin/env bats
# A sliding window shorter than the context bounds what a build promises: a
# cache that is made can be asked.

load build_helper

setup() {
    begin
    cp -r "$models/mistral" w
    chmod -R u+w w
    window 1024
    for i in $(seq 26); do echo "Line $i names a thing number $i."; done >a.md
}

window() {
    sed -i "s/\"sliding_window\": [a-z0-9]*/\"sliding_window\": $1/" w/config.json
}

@test "the window is the context of a build" {
    run --separate-stderr cag-build -n -m w -o k.kvc a.md </dev/null
    [ "$status" -eq 65 ] || show
    prints "in all, of 1024; 256 kept free"
    fails 65 "the context has 1024 (the model's sliding window)" cag-build -m w -o k.kvc a.md
    fails 65 "--ctx-size 1025 is more than the model's sliding window of 1024" cag-build -c 1025 -m w -o k.kvc a.md
    [ ! -e k.kvc ]
    window 2048
    ok cag-build -n -m w -o k.kvc a.md
    # what fits can be asked
    ok cag-build -m w -o k.kvc a.md
    ok cag-ask -n 5 k.kvc What is thing 7?
    ok cag-ask -n 5 --no-cache k.kvc What is thing 7?
    [ "$(cag-inspect --json k.kvc | jq .ctx_size)" = 2048 ]
    # one that reaches over the whole context changes nothing
    window 8192
    ok cag-build -n -m w -o k.kvc a.md
}
