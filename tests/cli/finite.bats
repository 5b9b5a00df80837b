#!/usr/bin/env bats
# A model whose numbers are not finite makes no cache: test_finite.c has the
# session's side, questions included.

load build_helper

setup() {
    begin
    printf 'The Sparrow-7 flies 47 minutes.\n' >a.md
    cp -r "$models/llama" bad
    chmod -R u+w bad
}

# poison TENSOR: its last element becomes a NaN
poison() {
    perl -MJSON::PP -e '
        for my $f (glob "bad/*.safetensors") {
            open my $h, "+<:raw", $f or die;
            read $h, my $n, 8;
            read $h, my $json, $n = unpack "Q<", $n;
            my $t = decode_json($json)->{$ARGV[0]} or next;
            my $size = $t->{dtype} eq "F32" ? 4 : 2;
            seek $h, 8 + $n + $t->{data_offsets}[1] - $size, 0;
            print $h "\xff" x $size;
            exit !close $h;
        }
        die "no $ARGV[0]"' "$1"
}

@test "a model that gives no logits: 69, named, and no file" {
    while read -r tensor place; do
        rm -rf bad && cp -r "$models/llama" bad && chmod -R u+w bad
        poison "$tensor"
        for codec in f16z f32 q8h; do
            fails 69 "$place" cag-build -m bad -o k.kvc --codec "$codec" a.md
            says "logits are infinite or not numbers; they became so in"
            [ ! -e k.kvc ]
        done
        fails 69 "$place" cag-build -m bad -o k.kvc --checkpoint a.md
    done <<'END'
model.norm.weight the last norm or the output matrix
lm_head.weight the last norm or the output matrix
model.layers.1.mlp.down_proj.weight layer 1
model.layers.1.self_attn.o_proj.weight layer 1
END
    # before the last layer it shows in keys and values
    rm -rf bad && cp -r "$models/llama" bad && chmod -R u+w bad
    poison model.layers.0.mlp.down_proj.weight
    fails 69 "layer 1, token 0: a key or value does not fit" cag-build -m bad -o k.kvc a.md
}
