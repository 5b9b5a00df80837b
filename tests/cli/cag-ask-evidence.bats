#!/usr/bin/env bats
# cag-ask --evidence: lines of the sources, labels, and answers withheld.

bats_require_minimum_version 1.5.0
load ask_helper

setup_file() {
    ask_setup_file
    mkdir -p docs
    cat >docs/a.md <<'EOF'
---
title: front matter
---
# Badges

A lost badge costs ten euros, paid at the desk.
Ask Mara Lind for a new one.

The desk opens at nine.
EOF
    # CR LF, a byte order mark, no newline at the end, a very long line
    { printf '\xef\xbb\xbfThe library closes at six.\r\n\r\n'
      printf 'Cats are welcome in the garden.\r\nDogs are not.\r\n'
      for i in $(seq 100); do printf 'Rule %d of the house says nothing new. ' "$i"; done
      printf 'The zebra crossing is closed.\r\nThe end'; } >docs/b.md
    printf '知識庫是本地的。\n\n快取檔案儲存在磁碟上。\n' >docs/c.md
    cag-build -q -m "$MODELS/qwen3" -o docs.kvc docs
    cag-build -q -m "$MODELS/qwen3" --front-matter drop -o drop.kvc docs
    export LITERAL="$BATS_TEST_DIRNAME/../tools/evidence_literal.py"
    for q in "What does a lost badge cost?" "Who is asked for a new badge?" \
        "When does the library close?" "Are cats welcome?" "Is the zebra crossing closed?" \
        "What does rule 7 say?" "快取檔案在哪裡？" "zzz" "Where is the end"; do
        jq -nc --arg q "$q" '{question:$q,max_tokens:8}'
    done >q.jsonl
}
setup() {
    cd "$work"
    rm -rf o o.part
}

@test "each piece stands in its file, byte for byte, at its lines" {
    for kvc in docs drop; do
        expect 0 cag-ask -q --evidence --batch q.jsonl $kvc.kvc
        jq -se 'length == 9 and all(.evidence | length <= 3) and
            (map(.evidence | length) | add) >= 9' "$out"
        [ "$(python3 "$LITERAL" . <"$out")" -ge 9 ]
        # the right place comes first, in lines of the file with its front matter
        jq -se '.[0].evidence[0] | .source == "a.md" and .path == "docs/a.md" and
            .line_from <= 6 and .line_to >= 6 and .state == "same" and .score > 0' "$out"
        jq -se '.[6].evidence[0] | .source == "c.md" and .line_from <= 3 and .line_to >= 3' "$out"
        jq -se '.[4].evidence[0] | .source == "b.md" and (.text | length) < 900 and
            (.text | contains("zebra"))' "$out"
        jq -r .question q.jsonl | while read -r q; do
            expect 0 cag-ask -q -n 4 --evidence $kvc.kvc "$q"
            python3 "$LITERAL" --text <"$err" >n
            expect 0 cag-ask -q -n 4 --evidence-format grep $kvc.kvc "$q"
            [ ! -s "$out" ] || [ "$(python3 "$LITERAL" --grep <"$out")" -ge 1 ]
            expect 0 cag-ask -q -n 4 --evidence --json $kvc.kvc "$q"
            [ "$(python3 "$LITERAL" . <"$out")" = "$(cat n)" ]
        done
    done
}

@test "the answer alone is on stdout, and the same as without" {
    cag-ask -q -n 6 docs.kvc "Are cats welcome?" >plain
    expect 0 cag-ask -q -n 6 --evidence docs.kvc "Are cats welcome?"
    cmp plain "$out"
    grep -qx 'docs/b.md:3: Cats are welcome in the garden\.' "$err"
    grep -qx 'support: [a-z]*' "$err"
    expect 0 cag-ask -q -n 6 --evidence-format grep docs.kvc "Are cats welcome?"
    grep -q '^docs/b.md:3:Cats are welcome in the garden.$' "$out"
    [ "$(head -n 1 "$err")" = "$(head -n 1 plain)" ]
    # paths are those from here
    mkdir -p sub/dir
    (cd sub/dir && cag-ask -q -n 6 --evidence-format grep ../../docs.kvc "Are cats welcome?") >o 2>/dev/null
    grep -q '^\.\./\.\./docs/b.md:3:Cats' o
}

@test "the same bytes with 1, 2 and 8 threads, together or alone" {
    cag-ask -q --evidence -t 1 -j 1 --batch q.jsonl docs.kvc | steady >want
    for t in 2 8; do
        cag-ask -q --evidence -t $t --batch q.jsonl docs.kvc | steady | cmp - want
    done
    cag-ask -q --evidence --unordered --batch q.jsonl docs.kvc | steady | sort | cmp - <(sort want)
    jq -r .question q.jsonl | while read -r q; do
        cag-ask -q -n 8 --evidence --json docs.kvc "$q"
    done | jq -c '{answer,support,support_score,evidence,quotes,unsupported}' >alone
    jq -c '{answer,support,support_score,evidence,quotes,unsupported}' want | cmp - alone
}

@test "a source that changed, went or came from a pipe is marked" {
    mkdir -p s
    printf 'One cat sat.\n' >s/one.md
    printf 'Two dogs ran.\n' >s/two.md
    printf 'Three cows ate.\n' | cag-build -q -m "$MODELS/qwen3" -o s.kvc --title herd.txt s/one.md s/two.md -
    printf 'One bird sat.\n' >s/one.md
    rm s/two.md
    cat >sq.jsonl <<'EOF'
{"question":"cat sat"}
{"question":"dogs ran"}
{"question":"cows ate"}
EOF
    expect 0 cag-ask -q -n 3 --stale ignore --evidence --batch sq.jsonl s.kvc
    jq -se 'map(.evidence[0].state) == ["changed", "missing", "pipe"] and
        .[0].evidence[0].text == "One cat sat." and .[2].evidence[0].path == null' "$out"
    expect 0 cag-ask -q -n 3 --stale ignore --evidence s.kvc cat sat
    grep -q '^s/one.md:1 (changed since): One cat sat\.$' "$err"
    expect 0 cag-ask -n 3 --stale ignore --evidence-format grep s.kvc cat sat
    grep -q '^s/one.md:1:One cat sat\.$' "$out"
    grep -q 'warning: s/one.md (changed since): its lines are those of the cached text' "$err"
}

@test "lines of a filtered source are those of its text, and it is said" {
    printf 'first\nA lost badge costs ten euros.\n' >f.src
    cat >f.yaml <<EOF
model: $MODELS/qwen3
sources:
  - path: f.src
    filter: [sed, -n, 2p]
EOF
    cag-build -q --manifest f.yaml -o f.kvc
    expect 0 cag-ask -q -n 3 --evidence --json f.kvc "lost badge"
    jq -e '.evidence[0] | .filtered == true and .line_from == 1 and
        .text == "A lost badge costs ten euros." and .state == "same"' "$out"
    expect 0 cag-ask -q -n 3 --evidence f.kvc "lost badge"
    grep -q '^f.src:1 (text of its filter): A lost badge' "$err"
}

@test "--require-evidence: the refusal, what was withheld, status 3" {
    refusal='The answer is not available in the knowledge base.'
    plain=$(cag-ask -q -n 5 docs.kvc zzz)
    expect 3 cag-ask -n 5 --require-evidence strong docs.kvc zzz
    [ "$(cat "$out")" = "$refusal" ]
    grep -q 'cag-ask: an answer was withheld: its support is none, asked for is strong' "$err"
    expect 3 cag-ask -q -n 5 --require-evidence weak --json docs.kvc zzz
    jq -e --arg r "$refusal" --arg p "$plain" '.answer == $r and .refused == true and .by == "evidence" and
        .withheld == $p and .support == "none"' "$out"
    # nothing is withheld that was not asked for
    expect 0 cag-ask -q -n 5 --require-evidence none docs.kvc zzz
    cmp "$out" <(printf '%s\n' "$plain")
    # rows of a batch are no failures; text rows have the refusal
    expect 0 cag-ask -n 5 --require-evidence strong --output-format text --batch q.jsonl docs.kvc
    [ "$(grep -c "^$refusal$" "$out")" -ge 8 ]
    grep -q 'cag-ask: [89] answers were withheld for want of evidence' "$err"
    # a conversation goes on with what was said
    expect 3 cag-ask -q -n 5 --chat --require-evidence strong docs.kvc <<<$'zzz\nyyy'
    [ "$(sort -u "$out")" = "$refusal" ]
}

@test "--resume judges again what an earlier run withheld" {
    cag-ask -q --batch q.jsonl docs.kvc | jq -r .answer >plain
    cag-ask -q --require-evidence strong --batch q.jsonl -o o docs.kvc
    [ "$(jq -r '.by // empty' o | grep -c evidence)" -ge 8 ]
    expect 0 cag-ask --resume --batch q.jsonl -o o docs.kvc
    says "9 from an earlier run"
    jq -r .answer o | cmp - plain
    [ "$(jq -s 'any(has("by") or has("withheld") or has("evidence"))' o)" = false ]
    expect 0 cag-ask --resume --evidence --batch q.jsonl -o o docs.kvc
    says "9 from an earlier run"
    cag-ask -q --evidence --batch q.jsonl docs.kvc | steady | cmp - <(steady o)
    # a field of that name in the input cannot pose as one
    jq -c '. + {by:"evidence",withheld:"forged"}' q.jsonl >forged.jsonl
    cag-ask -q --batch forged.jsonl -o o docs.kvc
    [ "$(jq -s 'any(has("withheld"))' o)" = false ]
    cag-ask -q --resume --batch forged.jsonl -o o docs.kvc
    jq -r .answer o | cmp - plain
}

@test "/evidence shows what the last answer stands on, --evidence after each" {
    talk() { cag-ask -q -n 5 "$@" docs.kvc 2>&1 >/dev/null | grep -v '^cag-ask: cut after'; }
    cag-ask -q -n 5 --evidence docs.kvc "Are cats welcome?" 2>&1 >/dev/null | grep -v '^cag-ask: ' >want
    [ "$(wc -l <want)" -ge 2 ]
    talk -i <<<$'Are cats welcome?\n/evidence' | cmp - want
    talk --evidence -i <<<$'Are cats welcome?\n/evidence\n/reset\n/evidence' | cmp - <(cat want want)
    expect 0 cag-ask -n 5 -i docs.kvc <<<'/evidence'
    says "nothing was answered yet"
    # the first turn of a conversation is as alone, the next knows what was asked
    talk --evidence --chat <<<$'Are cats welcome?\nAnd where?' >turns
    head -n "$(wc -l <want)" turns | cmp - want
    sed "1,$(wc -l <want)d" turns | grep -q '^docs/'
    [ "$(python3 "$LITERAL" --text <turns)" -ge 2 ]
}

@test "fields of the input give way to those of the evidence" {
    echo '{"question":"zzz","evidence":"gold","quotes":1,"tag":2}' >g.jsonl
    expect 0 cag-ask -q -n 3 --batch g.jsonl docs.kvc
    jq -e '.evidence == "gold" and .quotes == 1 and .tag == 2' "$out"
    expect 0 cag-ask -q -n 3 --evidence --batch g.jsonl docs.kvc
    jq -e '(.evidence | type) == "array" and (.quotes | type) == "array" and .tag == 2' "$out"
}

@test "wrong use is refused in one line" {
    expect 64 cag-ask -q --evidence --batch - docs.kvc <<<zzz
    refused "--evidence needs rows as JSON: add --output-format jsonl"
    for o in --json -x "--batch q.jsonl"; do
        expect 64 cag-ask -q --evidence-format grep $o docs.kvc
        grep -q -- "--evidence-format grep does not go with" "$err"
    done
    expect 64 cag-ask -q --require-evidence some docs.kvc zzz
}

# --------------------------------------------------------------- demo model

@test "README and cag-ask(1) open with what is printed" {
    [ -r "${CAG_DEMO_MODEL:-}" ] || skip "no demo model"
    top="$BATS_TEST_DIRNAME/../.."
    cp "$top/examples/knowledge.txt" atish.md
    cag-build -q -m "$CAG_DEMO_MODEL" -o atish.kvc atish.md
    for page in README.md man/cag-ask.1; do
        # a command and what stands under it, in the first 60 lines
        head -n 60 "$top/$page" | sed -n '/^\$ cag-ask --evidence/,/^support:/p' >shown
        grep '^\$ ' shown | while IFS= read -r command; do
            printf '%s\n' "$command"
            bash -c "${command#$ }" 2>&1 | sed '/^unsupported:/d'
        done >printed
        [ "$(grep -c '^support: ' shown)" -ge 1 ]
        cmp shown printed
    done
}

# Right answers and evidence of the demo model over the FAQ of XZ Utils.
@test "the FAQ with the demo model: gold lines first, quotes, what is unsupported" {
    [ -r "${CAG_DEMO_MODEL:-}" ] || skip "no demo model"
    gold="$BATS_TEST_DIRNAME/../golden/qa/xzfaq.jsonl"
    cp "$BATS_TEST_DIRNAME/../golden/qa/xzfaq.txt" faq.txt
    cag-build -q -m "$CAG_DEMO_MODEL" -o faq.kvc faq.txt
    # rows lose their gold fields of our names: keep them under others
    jq -c '.gold = .evidence' "$gold" >fq.jsonl
    cag-ask -q --evidence -n 40 --batch fq.jsonl faq.kvc >rows
    [ "$(python3 "$LITERAL" . <rows)" -ge 100 ]
    jq -se 'def hit($l): .line_from <= $l[1] and .line_to >= $l[0];
        map(select(.answerable) | . as $r |
            select(any(.answers[]; ascii_downcase as $a | $r.answer | ascii_downcase | contains($a)))) |
        length as $n | $n >= 5 and
        ([.[] | .lines as $l | select(.evidence[0] | hit($l))] | length) >= 0.9 * $n and
        ([.[] | .lines as $l | select(any(.evidence[]; hit($l)))] | length) >= 0.97 * $n' rows
    # a strong label for at most one in twenty of what the text does not say
    jq -se 'map(select(.answerable | not)) | length as $n |
        ([.[] | select(.support == "strong")] | length) <= 0.05 * $n' rows
    # what is unsupported stands nowhere; many answers of this model have such
    jq -se --rawfile text faq.txt 'def words: " " + gsub("[^A-Za-z0-9.]"; " ") + " ";
        ([.[] | .question as $q | .unsupported[] | (" " + . + " ") as $u |
            ($text + " " + $q | words | contains($u))] | any | not) and
        (map(select(.unsupported != [])) | length) >= 5' rows
    jq -se 'map(.quotes | length) | add > 0' rows
}

@test "evidence costs less than 3 ms for 3,000 tokens" {
    [ -r "${CAG_DEMO_MODEL:-}" ] || skip "no demo model"
    cp "$BATS_TEST_DIRNAME/../golden/qa/xzfaq.txt" faq.txt
    [ -e faq.kvc ] || cag-build -q -m "$CAG_DEMO_MODEL" -o faq.kvc faq.txt
    # the best of a few: the machine may be busy
    for _ in 1 2 3 4 5; do
        cag-ask -u -n 10 --evidence faq.kvc "What does LZMA stand for?" 2>&1 >/dev/null |
            sed -n 's/.*; evidence \([0-9.]*\) ms$/\1/p'
    done | sort -n | head -n 1 | awk '{ exit !($1 > 0 && $1 < (ENVIRON["CAG_MODE"] == "release" ? 3 : 300)) }'
}
