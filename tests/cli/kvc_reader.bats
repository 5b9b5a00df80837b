#!/usr/bin/env bats
# The second reader (tests/tools/kvc_reader.py) on golden and bad files.

setup() {
    reader="$BATS_TEST_DIRNAME/../tools/kvc_reader.py"
    golden="$BATS_TEST_DIRNAME/../golden"
}

@test "golden files of every version are read" {
    run python3 "$reader" --quiet --sections "$golden"/kvc/*.kvc
    [ "$status" -eq 0 ]
    [ "$(grep -c '^KV ' <<<"$output")" -eq "$(ls "$golden"/kvc/*.kvc | wc -l)" ]
}

@test "f16 and f16z share binding, content id and rows" {
    for codec in f16 f16z; do
        python3 "$reader" --row K 1 0 69 --row V 0 0 63 \
            "$golden/kvc/v1.0-$codec.kvc" >"$BATS_TEST_TMPDIR/$codec"
    done
    for member in binding_sha256 content_id; do
        a=$(head -n 1 "$BATS_TEST_TMPDIR/f16" | jq -r ".$member")
        b=$(head -n 1 "$BATS_TEST_TMPDIR/f16z" | jq -r ".$member")
        [ ${#a} -eq 64 ]
        [ "$a" = "$b" ]
    done
    cmp <(tail -n 2 "$BATS_TEST_TMPDIR/f16") <(tail -n 2 "$BATS_TEST_TMPDIR/f16z")
    [ "$(tail -n 1 "$BATS_TEST_TMPDIR/f16" | wc -w)" -eq 40 ]
}

@test "every bad file is refused with one line" {
    for f in "$golden"/bad/kvc-*.kvc; do
        run python3 "$reader" "$f"
        [ "$status" -eq 1 ]
        [ "${#lines[@]}" -eq 1 ]
    done
}

@test "a flipped byte anywhere is found" {
    f="$BATS_TEST_TMPDIR/x.kvc"
    for at in 9 40 200 5000 13000 25000 37000 45000; do
        cp "$golden/kvc/v1.0-f16z.kvc" "$f"
        printf '\377' | dd of="$f" bs=1 seek=$at conv=notrunc status=none
        run python3 "$reader" "$f"
        [ "$status" -eq 1 ]
    done
}
