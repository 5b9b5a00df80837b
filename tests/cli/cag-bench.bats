#!/usr/bin/env bats
# cag-bench: the shape of its figures, reports read back, compared and drawn.
# No test looks at how long anything took.

bats_require_minimum_version 1.5.0
load ask_helper

setup_file() {
    ask_setup_file
    cag-bench run -q -r 2 --warmup 0 -n 24 --batch 2 --tmp-dir "$work" \
        --export-json report.json -o jsonl qwen.kvc >figures.jsonl
    write_report old.json 1 100 0.5
}
setup() { cd "$work"; }

# write_report FILE SECONDS RATE BYTES: a made-up report
write_report() {
    jq -n --argjson s "$2" --argjson r "$3" --argjson b "$4" '
        def f(n; u; m): {name: n, unit: u, context: 512, batch: null,
            state: null, better: "lower", n: 3, median: m, min: m, max: m,
            share: null};
        {schema: 1, tool: "cag-bench", facts: {cpu: "Made-up <CPU> & sons",
         threads: "2", git: "x\"y|z"}, figures: [
         (f("ttft"; "s"; $s) + {state: "warm"}),
         (f("ttft"; "s"; $s * 4) + {state: "warm", context: 2048}),
         (f("decode_rate"; "tokens/s"; $r) + {better: "higher", share: 0.5}),
         (f("batch_rate"; "tokens/s"; $r * 4) + {better: "higher", batch: 16}),
         f("file_bytes"; "bytes"; $b),
         (f("limit_fma"; "GFLOP/s"; $r) + {better: null, context: null})],
         notes: ["a note"]}' >"$1"
}

figure() { jq -se --arg n "$1" "map(select(.name == \$n)) | $2" figures.jsonl; }

# ---------------------------------------------------------------------- run

@test "run gives every group of figures, each with its facts" {
    for name in tokenize prefill encode write build prefill_rate map open \
        expand verify question_prefill first_token answer \
        first_token_uncached answer_uncached decode_rate batch_rate \
        step step_guesses answer_rate answer_rate_plain answer_rate_bound answer_per_step \
        evidence \
        batch_answers ttft ttft_uncached private_bytes mapped_bytes \
        shared_bytes file_bytes kv_bytes_per_tok limit_read limit_fma; do
        figure $name 'length >= 1' >/dev/null || { echo "no $name"; return 1; }
    done
    jq -se 'all(.[]; .schema == 1 and .median > 0 and .min <= .median and
        .median <= .max and .n >= 1 and (.unit | length) > 0 and
        (.facts | (.cpu, .cpu_flags, .threads, .kernels, .model_sha256, .codec,
        .tool, .git, .compiler, .libraries, .date) | length > 0))' figures.jsonl
    figure ttft_uncached 'all(.n == 2 and .state == "warm")'
    figure decode_rate 'map(.context) | contains([0]) and length == 2'
    figure batch_rate 'map(.batch) == [2]'
    figure kv_bytes_per_tok '.[0].share > 0.3 and .[0].share < 1.1'
    figure file_bytes ".[0].median == $(stat -c %s qwen.kvc)"
}

@test "what a checked answer and a second look cost" {
    cag-build -q -m "$MODELS/qwen3" --calibrate heads -o check.kvc "$BATS_TEST_DIRNAME/../../examples/knowledge.txt"
    cag-bench run -q -r 2 --warmup 1 -n 2 --batch 1 --tmp-dir "$work" -o jsonl check.kvc >check.jsonl
    for name in focus_mask focus_reread; do
        jq -se --arg n $name 'map(select(.name == $n)) | length == 1 and .[0].unit == "%" and .[0].n == 2' check.jsonl
    done
    jq -se 'map(select(.name == "evidence")) | .[0].n == 2 and .[0].median > 0' check.jsonl
    # heads of so little quote mass are not measured
    jq -se 'all(.name != "copy_heads")' check.jsonl
}

@test "facts are the cache's and the model's" {
    sha=$(jq -r .facts.model_sha256 report.json)
    [ "$sha" = "$(cag-inspect --json qwen.kvc | jq -r '.. | .weights_sha256? // empty' | head -n 1)" ]
    [ "$(jq -r .facts.content_id report.json)" = "$(cag-inspect --digest qwen.kvc | cut -c1-64)" ]
    jq -e '.facts.codec == "f16z" and .facts.repeat == "2" and
        .facts.generated == "24"' report.json
}

@test "nothing is left in the temporary directory, and the cache is unchanged" {
    before=$(sha256sum qwen.kvc)
    mkdir -p tmp
    expect 0 cag-bench build -q -r 1 --tmp-dir tmp qwen.kvc
    [ -z "$(ls -A tmp)" ]
    TMPDIR=tmp expect 64 cag-bench build --context 10x qwen.kvc
    [ -z "$(ls -A tmp)" ]
    [ "$before" = "$(sha256sum qwen.kvc)" ]
}

@test "each command measures its own; the command need not be written" {
    for c in build load decode batch ttft; do
        cag-bench $c -q -r 1 --warmup 0 -n 2 --batch 1,2 -o csv qwen.kvc >$c.csv
    done
    grep -q '^"prefill_rate",' build.csv
    run ! grep -q '^"ttft",' build.csv
    grep -q '^"verify",' load.csv
    [ "$(grep -c '^"batch_rate",' batch.csv)" = 2 ]
    [ "$(grep -c '^"decode_rate",' decode.csv)" = 2 ]
    grep -q '^"ttft",.*,warm,' ttft.csv
    # every line has the columns of the head
    for c in build load decode batch ttft; do
        [ "$(head -n 1 $c.csv | tr , '\n' | wc -l)" = 21 ]
    done
    expect 0 cag-bench -q -r 1 --warmup 0 -n 2 --batch 1 qwen.kvc
    grep -q '^| break_even\|^Note: .*saves nothing' "$out"
    grep -q '^| question_prefill |' "$out"
}

@test "a sweep makes caches of the lengths asked for" {
    expect 0 cag-bench load -q -r 1 --warmup 0 --context 230,400 -o jsonl qwen.kvc
    jq -se 'map(select(.name == "map") | .context) |
        length == 2 and (.[0] - 230 | fabs) < 12 and (.[1] - 400 | fabs) < 12' "$out"
}

@test "questions come from a file, blank lines are none" {
    printf 'How long?\r\n\n  \nWho leads?\n' >questions
    expect 0 cag-bench decode -q -r 1 --questions questions qwen.kvc
    printf '\n \n' >questions
    expect 65 cag-bench decode --questions questions qwen.kvc
    grep -q 'no question in this file' "$err"
    printf 'caf\xe9\n' >questions
    expect 65 cag-bench decode --questions questions qwen.kvc
    expect 66 cag-bench decode --questions missing qwen.kvc
}

@test "what cannot be measured is refused" {
    expect 64 cag-bench
    expect 64 cag-bench rum x.json.no
    grep -q "did you mean 'run'" "$err"
    expect 64 cag-bench bild qwen.kvc
    grep -q "unknown command 'bild'; did you mean 'build'?" "$err"
    expect 64 cag-bench run
    expect 64 cag-bench run qwen.kvc llama.kvc
    expect 64 cag-bench -q load qwen.kvc
    grep -q 'the command comes first' "$err"
    expect 64 cag-bench run --context 512, qwen.kvc
    expect 64 cag-bench run --batch 0 qwen.kvc
    expect 64 cag-bench run -r 0 qwen.kvc
    expect 66 cag-bench missing.kvc
    expect 66 cag-bench load -m /nowhere qwen.kvc
    expect 65 cag-bench load --context 3 qwen.kvc
    grep -q 'leaves no room for knowledge' "$err"
    expect 65 cag-bench load --context 1000000 qwen.kvc
    expect 73 cag-bench load --tmp-dir /nowhere qwen.kvc
    expect 65 cag-bench load "$MODELS/qwen3/config.json"
}

# ----------------------------------------------------------------- reports

@test "show prints a stored report as the run did" {
    expect 0 cag-bench show -o json report.json
    cmp "$out" report.json
    expect 0 cag-bench show -o jsonl report.json
    cmp "$out" figures.jsonl
    expect 0 cag-bench show --export-json - report.json
    cmp "$out" report.json
    expect 0 cag-bench show -o csv old.json
    grep -qF '"x""y|z"' "$out"
    expect 0 cag-bench show old.json
    grep -qF 'git: x"y\|z' "$out"
    grep -qF '| decode_rate | 512 |  |  | 100 | 100 | 100 | tokens/s | 3 | 50 % |' "$out"
    grep -qF 'Note: a note' "$out"
    # the finding first, in words; bytes and seconds in units for people
    jq -c '.figures += [(.figures[0] | .name = "ttft_uncached" | .context = 2048 | .median = 64)]' old.json >found.json
    expect 0 cag-bench show found.json
    [ "$(head -n 1 "$out")" = "**4.0 s instead of 64 s to the first token, 16 times as fast: 2048 tokens of knowledge, from the start of cag-ask.**" ]
    expect 0 cag-bench show report.json
    head -n 1 "$out" | grep -q ' to the first token'
    grep -qE '^\| file_bytes .* \| [KM]iB \|' "$out"
    grep -qE '^\| map .* \| [mu]s \|' "$out"
    expect 0 cag-bench show --svg - found.json
    grep -qF '<title>4.0 s instead of 64 s to the first token, 16 times as fast</title>' "$out"
}

@test "what is no report is 65, with the reason" {
    echo '{' >bad; expect 65 cag-bench show bad
    echo '[]' >bad; expect 65 cag-bench show bad
    jq -c '.schema = 2' old.json >bad; expect 65 cag-bench show bad
    grep -q 'schema' "$err"
    for edit in '.figures = 3' '.facts = []' '.facts.cpu = 1' \
        '.figures[0].median = "x"' 'del(.figures[1].unit)' \
        '.figures[0].name = "a name that is much longer than names are"' \
        '.figures[0].n = 0' '.figures[0] = 1' '.notes = [1]' \
        '.figures[0].batch = -1' '.figures[0].context = -7'; do
        jq -c "$edit" old.json >bad
        expect 65 cag-bench show bad
        grep -q 'no report of cag-bench' "$err"
    done
    jq -c '.later = 1 | .figures[0].later = {}' old.json >good
    expect 0 cag-bench show good
    expect 66 cag-bench show missing.json
}

# ----------------------------------------------------------------- compare

@test "the same report is no regression" {
    expect 0 cag-bench show --compare old.json old.json
    [ "$(cat "$err")" = "cag-bench show: 0 of 5 figures are more than 10 % worse, 5 are equal" ]
    run ! grep -q 'limit_fma' "$err"
}

@test "slower, fewer a second, larger: regressions, beyond the threshold only" {
    write_report new.json 1.2 100 0.5
    expect 1 cag-bench show --compare old.json new.json
    grep -q 'REGRESSION ttft at 512 tokens, warm: 1 -> 1.2 s, 20.0 % worse' "$err"
    grep -q '2 of 5 figures are more than 10 % worse, 3 are equal' "$err"
    [ "$(wc -l <"$err")" = 3 ]
    expect 0 cag-bench show --compare old.json --threshold 20.5 new.json
    write_report new.json 1 50 0.5
    expect 1 cag-bench show --compare old.json --threshold 99 new.json
    grep -q 'REGRESSION decode_rate at 512 tokens: 100 -> 50 tokens/s, 100.0 % worse' "$err"
    grep -q 'REGRESSION batch_rate at 512 tokens, batch 16' "$err"
    write_report new.json 1 100 0.6
    expect 1 cag-bench show --compare old.json new.json
    expect 1 cag-bench show -q --compare old.json new.json
    [ ! -s "$err" ]
}

@test "better is no regression, other machines are named, strangers are 65" {
    write_report new.json 0.1 900 0.1
    expect 0 cag-bench show --compare old.json new.json
    grep -q 'ttft at 512 tokens, warm: 1 -> 0.1.* s, 90.0 % better' "$err"
    jq -c '.facts.cpu = "another"' new.json >other.json
    expect 0 cag-bench show --compare old.json other.json
    grep -q 'differ in: cpu$' "$err"
    jq -c '.figures |= map(.context = 7)' old.json >other.json
    expect 65 cag-bench show --compare old.json other.json
    jq -c '.figures = []' old.json >other.json
    expect 65 cag-bench show --compare old.json other.json
    echo 7 >bad
    expect 65 cag-bench show --compare bad old.json
}

@test "a run is compared like a stored report" {
    jq -c '.figures |= map(.median = 1e9 * .median | .better = "lower")' report.json >slow.json
    jq -c '.figures |= map(.median = 1e-9 * .median)' report.json >fast.json
    expect 0 cag-bench load -r 1 --warmup 0 --compare slow.json -o csv qwen.kvc
    expect 1 cag-bench load -q -r 1 --warmup 0 --compare fast.json -o csv qwen.kvc
}

# --------------------------------------------------------------------- SVG

@test "a drawing is well-formed XML that needs nothing from elsewhere" {
    expect 0 cag-bench show --svg old.svg old.json
    xml_ok old.svg
    grep -qF 'Made-up &lt;CPU> &amp; sons' old.svg
    # of two sizes a curve, of one size bars
    [ "$(grep -c '<polyline' old.svg)" = 1 ]
    [ "$(grep -c '<rect' old.svg)" -ge 3 ]
    grep -qF '>From the start of the process to its first byte (s)<' old.svg
    grep -qF '>tokens of knowledge (logarithmic axis)<' old.svg
    grep -qF '>Size of the cache: 512 tokens of knowledge<' old.svg
    grep -q '<title>.*</title>' old.svg
    grep -q '<desc>.*Made-up' old.svg
    grep -qF '>2048<' old.svg
    run ! grep -Eq '<(script|style|image|link|foreignObject)|href|url\(|@font|nan|inf"' old.svg
    expect 0 cag-bench show --svg - report.json
    xml_ok "$out"
    jq -c '.figures = []' old.json >empty.json
    expect 0 cag-bench show --svg empty.svg empty.json
    grep -q 'nothing to draw' "$err"
    xml_ok empty.svg
    expect 73 cag-bench show --svg /nowhere/x.svg old.json
    expect 73 cag-bench show --export-json /nowhere/x.json old.json
    expect 74 cag-bench show --export-json /dev/full old.json
    expect 74 bash -c 'cag-bench show old.json >/dev/full'
}

xml_ok() {
    perl -e '
        local $/; $_ = <>; my @open;
        s/^<\?xml[^>]*\?>//;
        while (/\G([^<]*)(?:<(\/?)([a-z]+)((?:\s+[\w:-]+="[^"<&]*")*)\s*(\/?)>)?/gc) {
            last unless defined $3 or length $1;
            die "text: $1" if $1 =~ /&(?!(?:amp|lt|gt|quot);)/;
            next unless defined $3;
            if ($2) { die "</$3>" unless @open && pop(@open) eq $3 }
            elsif (!$5) { push @open, $3 }
        }
        die "stops at " . pos() if (pos() // 0) < length;
        die "open: @open" if @open;' "$1"
}

@test "ended by a signal, nothing is left" {
    mkdir -p tmp
    cag-bench -q -r 1000 --tmp-dir tmp qwen.kvc &
    pid=$!
    for i in $(seq 200); do
        [ -z "$(ls -A tmp)" ] || break
        sleep 0.05
    done
    [ -n "$(ls -A tmp)" ]
    kill -TERM $pid
    status=0
    wait $pid || status=$?
    [ "$status" = 143 ]
    [ -z "$(ls -A tmp)" ]
}

@test "the drawing of the README is that of the stored report" {
    top="$BATS_TEST_DIRNAME/../.."
    # made by these two commands; a change of the drawing makes it again
    jq -c '.figures |= map(select(.name | startswith("ttft")))' \
        "$top/tests/bench/results/intel-xeon-processor-2.json" >stored.json
    expect 0 cag-bench show --svg - stored.json
    cmp "$out" "$top/examples/first-token.svg"
}

@test "--help lists the commands, --help all the options of each" {
    expect 0 cag-bench --help
    grep -q '^  eval  *judge answers' "$out"
    expect 0 cag-bench --help all
    grep -q '^Options of run, build, ttft, decode, batch, load:$' "$out"
    for o in context arms ids export-json; do
        grep -q -- "--$o" "$out"
    done
    [ "$(grep -c -- '--quiet' "$out")" = 1 ]
    expect 64 cag-bench nothing
    grep -q "'nothing' is neither a cache nor a command; there are run, build, ttft" "$err"
}

@test "what is built again is said where it has another length" {
    mkdir -p two
    cp kb.md two/a.md
    cp kb.md two/b.md
    cag-build -q -m "$MODELS/qwen3" -o two.kvc two
    expect 0 cag-bench build -r 1 --warmup 0 two.kvc
    grep -Eq '^Note: building is measured on the text of the cache as one source, [0-9]+ tokens; the cache has [0-9]+' "$out"
}

@test "what is read is never replaced by what is written" {
    mkdir own && cd own
    cp "$work/kb.md" .
    cag-build -q -m "$MODELS/qwen3" -o k.kvc kb.md
    echo 'Who leads?' >q.txt
    printf '{"question":"Who leads?","answers":["Maya"]}\n' >g.jsonl
    cp "$work/old.json" .
    ln kb.md hard.md
    sha256sum -- * >../before
    for o in --export-json --svg; do
        expect 64 cag-bench load -q -r 1 --warmup 0 $o k.kvc k.kvc
        expect 64 cag-bench load -q -r 1 --warmup 0 $o kb.md k.kvc
        expect 64 cag-bench load -q -r 1 --warmup 0 $o hard.md k.kvc
        expect 64 cag-bench load -q -r 1 --warmup 0 --questions q.txt $o q.txt k.kvc
        expect 64 cag-bench load -q -r 1 --warmup 0 --compare old.json $o ./old.json k.kvc
        expect 64 cag-bench show $o old.json old.json
    done
    for rows in g.jsonl kb.md hard.md; do
        expect 64 cag-bench eval -q --questions g.jsonl --rows $rows k.kvc
    done
    expect 73 cag-bench eval -q --questions g.jsonl --rows k.kvc k.kvc
    sha256sum -c --quiet ../before
}

@test "progress names what is measured, not what goes on inside" {
    expect 0 cag-bench decode --progress always -r 1 -n 4 qwen.kvc
    grep -qx "cag-bench decode: decoding" "$err"
    run ! grep -q "decoding 0\|prefill" "$err"
}
