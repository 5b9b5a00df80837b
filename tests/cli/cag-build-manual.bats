#!/usr/bin/env bats
# The EXAMPLES of cag-build(1) and cag-inspect(1), run as they are printed.

load build_helper

setup() {
    begin
    mkdir docs
    facts 3 >docs/a.md
    echo "two" >docs/b.txt
    echo "notes" >notes.txt
    echo '[{"role":"user","content":"Hello"}]' >chat.json
    cp "$model" model.gguf
}

# The literal blocks of the section, one script.
examples() {
    awk '/^\.Sh / { e = /EXAMPLES/ } !e { next }
         /^\.Bd -literal/ { on = 1; next } /^\.Ed/ { on = 0 } on' \
        "$BATS_TEST_DIRNAME/../../man/$1" | sed 's/\\e/\\/g'
}

@test "cag-build(1)" {
    examples cag-build.1 >script
    [ "$(grep -c cag-build script)" -ge 8 ]
    ok sh -e script
    prints "left over"
    prints fresh
    [ "$(cag-inspect --digest handbook.kvc)" = "$(cag-inspect --digest shared.kvc)" ]
    [ "$(cag-inspect --json notes.kvc | jq -r '.sources[0].name')" = Notes ]
    cag-inspect --text handbuch.kvc | grep -q "sonst genau: Das steht nicht im Handbuch."
}

@test "cag-inspect(1)" {
    cag-build -q -m model.gguf -o yesterday.kvc docs
    echo more >>docs/a.md
    cag-build -q -m model.gguf -o handbook.kvc docs
    examples cag-inspect.1 >script
    [ "$(grep -c cag-inspect script)" -ge 8 ]
    ok sh -e script
    prints "docs/a.md: OK"
    prints "source differs: a.md"
    prints '[cached part ends here]user'
}
