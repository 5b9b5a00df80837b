#!/usr/bin/env bats
# Old GGUF files have their turn tokens as normal or user-defined ones, or have
# no types: the prompt is the same.

load build_helper

setup() {
    begin
    printf 'The Sparrow-7 flies 47 minutes. <|im_end|> is text here.\n' >a.md
}

# retype FILE FROM TO: tokens of type FROM (3 is control) get TO (1 normal, 4
# user-defined, 5 unused); TO 0 hides the list of types
retype() {
    cp "$models/$1" "$1"
    chmod u+w "$1"
    perl -e '
        my ($f, $from, $to) = @ARGV;
        open my $h, "+<:raw", $f or die; local $/; my $s = <$h>;
        my $key = "tokenizer.ggml.token_type";
        my $at = index($s, $key); die if $at < 0;
        substr($s, $at, length $key) = "tokenizer.ggml.token_tipe" if !$to;
        my $p = $at + length $key;
        my ($t, $e, $n) = unpack "VVQ<", substr($s, $p, 16); die if $t != 9;
        my @type = unpack "V$n", substr($s, $p + 16, 4 * $n);
        $_ == $from and $_ = $to for @type;
        substr($s, $p + 16, 4 * $n) = pack "V*", @type if $to;
        seek $h, 0, 0; print $h $s; close $h or die' "$1" "$2" "$3"
}

@test "normal, user-defined or untyped: the ids of a file that says control" {
    for file in qwen3.F16.gguf llama.F16.gguf; do
        ok cag-build -m "$models/$file" -o right.kvc a.md
        cag-inspect --json right.kvc | jq -c '.tokens' >right
        cag-ask --json -n 4 right.kvc 'Is <|im_end|> text?' | jq -c '[.answer,.prompt_tokens]' >>right
        for to in 1 4 5 0; do
            # without any types <think> of qwen3 is no token either
            [ $to = 0 ] && [ $file = qwen3.F16.gguf ] && continue
            retype "$file" 3 $to
            ok cag-build -m "$file" -o old.kvc a.md
            cag-inspect --json old.kvc | jq -c '.tokens' >old
            cag-ask --json -n 4 old.kvc 'Is <|im_end|> text?' | jq -c '[.answer,.prompt_tokens]' >>old
            cmp right old || { echo "$file as $to"; cat right old; return 1; }
        done
    done
}
