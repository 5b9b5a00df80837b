"""golden_tok.py - tokenizers for the models of make_golden.py: real, small,
one of each family the tools read, trained on the text below."""

import json

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models,
                        normalizers, pre_tokenizers, processors, trainers)

TEXT = """
The answer is not available in the knowledge base. Answer only from the
knowledge base and give only the direct answer. The station stands on a hill
above the town, and the people who work there know every road that leads to
it. In the morning they measure the water, the soil and the wind; in the
evening they write the numbers into a book. What is the name of the station?
Where does the road begin, and how long does it take to reach the river? The
first test was in March, the second in June, and the third was never finished
because the instrument was lost. When it was found again it still worked.
There are 12 rooms, 3 towers and 1 well. It's said that nobody has ever
counted the stairs, but they'll tell you there are 144. Für die Küche: 2 Äpfel,
¿dónde está? 日本語のテキスト。 Привет, мир. naïve café 🙂
def main(args): return [int(x) for x in args if x != "0"]
"""

SMOLLM_TEMPLATE = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] "
    "!= 'system' %}{{ '<|im_start|>system\nYou are a helpful assistant."
    "<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + "
    "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")

QWEN2_TEMPLATE = (
    "{%- if messages[0]['role'] == 'system' -%}\n"
    "    {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}\n"
    "{%- else -%}\n"
    "    {{- '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}\n"
    "{%- endif -%}\n"
    "{%- for message in messages -%}\n"
    "    {%- if (message.role == 'user') or (message.role == 'assistant') "
    "or (message.role == 'system' and not loop.first) -%}\n"
    "        {{- '<|im_start|>' + message.role + '\\n' + message.content + "
    "'<|im_end|>' + '\\n' }}\n"
    "    {%- endif -%}\n"
    "{%- endfor -%}\n"
    "{%- if add_generation_prompt -%}\n"
    "    {{- '<|im_start|>assistant\\n' }}\n"
    "{%- endif -%}\n")

QWEN3_TEMPLATE = (
    "{%- for message in messages %}\n"
    "    {%- set content = message.content if message.content is string else '' %}\n"
    "    {%- if message.role == 'assistant' and '</think>' in content %}\n"
    "        {%- set content = content.split('</think>')[-1].lstrip('\\n') %}\n"
    "    {%- endif %}\n"
    "    {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}\n"
    "{%- endfor %}\n"
    "{%- if add_generation_prompt %}\n"
    "    {{- '<|im_start|>assistant\\n' }}\n"
    "    {%- if enable_thinking is defined and enable_thinking is false %}\n"
    "        {{- '<think>\\n\\n</think>\\n\\n' }}\n"
    "    {%- endif %}\n"
    "{%- endif %}\n")

LLAMA3_TEMPLATE = (
    "{{- bos_token }}\n"
    "{%- if not date_string is defined %}\n"
    "    {%- if strftime_now is defined %}\n"
    "        {%- set date_string = strftime_now(\"%d %b %Y\") %}\n"
    "    {%- else %}\n"
    "        {%- set date_string = \"26 Jul 2024\" %}\n"
    "    {%- endif %}\n"
    "{%- endif %}\n"
    "{%- if messages[0]['role'] == 'system' %}\n"
    "    {%- set system_message = messages[0]['content']|trim %}\n"
    "    {%- set messages = messages[1:] %}\n"
    "{%- else %}\n"
    "    {%- set system_message = \"\" %}\n"
    "{%- endif %}\n"
    "{{- \"<|start_header_id|>system<|end_header_id|>\\n\\n\" }}\n"
    "{{- \"Today Date: \" + date_string + \"\\n\\n\" }}\n"
    "{{- system_message }}\n"
    "{{- \"<|eot_id|>\" }}\n"
    "{%- for message in messages %}\n"
    "    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'"
    " + message['content'] | trim + '<|eot_id|>' }}\n"
    "{%- endfor %}\n"
    "{%- if add_generation_prompt %}\n"
    "    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}\n"
    "{%- endif %}\n")

MISTRAL_TEMPLATE = (
    "{%- if messages[0]['role'] == 'system' %}\n"
    "    {%- set system_message = messages[0]['content'] + '\\n\\n' %}\n"
    "    {%- set loop_messages = messages[1:] %}\n"
    "{%- else %}\n"
    "    {%- set system_message = '' %}\n"
    "    {%- set loop_messages = messages %}\n"
    "{%- endif %}\n"
    "{{- bos_token }}\n"
    "{%- for message in loop_messages %}\n"
    "    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}\n"
    "        {{- raise_exception('roles must alternate user/assistant') }}\n"
    "    {%- endif %}\n"
    "    {%- if message['role'] == 'user' %}\n"
    "        {%- if loop.first %}\n"
    "            {{- '[INST] ' + system_message + message['content'] + ' [/INST]' }}\n"
    "        {%- else %}\n"
    "            {{- '[INST] ' + message['content'] + ' [/INST]' }}\n"
    "        {%- endif %}\n"
    "    {%- else %}\n"
    "        {{- ' ' + message['content'] + eos_token }}\n"
    "    {%- endif %}\n"
    "{%- endfor %}\n")

QWEN_RE = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
           r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
LLAMA3_RE = QWEN_RE.replace(r"|\p{N}|", r"|\p{N}{1,3}|")


class Tok:
    """A tokenizers.Tokenizer with what both containers need to say of it."""

    def __init__(self, tok, special, eos, bos, template, pre, plain=()):
        self.tok, self.special, self.template = tok, special, template
        self.eos, self.bos, self.pre = eos, bos, pre
        self.plain = plain            # added tokens that are not special
        self.n = tok.get_vocab_size()

    def json(self, merges_as_text=False):
        j = json.loads(self.tok.to_str())
        if merges_as_text:
            j["model"]["merges"] = [" ".join(p) for p in j["model"]["merges"]]
        return j

    def tokens(self):
        v = self.tok.get_vocab(with_added_tokens=True)
        out = [None] * len(v)
        for s, i in v.items():
            out[i] = s
        return out


def byte_level(n_merge, special, pre_tok, pre, eos, bos, template,
               normalizer=None, post=None, plain=()):
    tok = Tokenizer(models.BPE(ignore_merges=(pre == "llama-bpe")))
    if normalizer:
        tok.normalizer = normalizer
    tok.pre_tokenizer = pre_tok
    tok.decoder = decoders.ByteLevel()
    first = pre == "smollm"           # SmolLM puts its specials first
    trainer = trainers.BpeTrainer(
        vocab_size=256 + n_merge + (len(special) if first else 0),
        show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=[AddedToken(s, special=True, normalized=False)
                        for s in special] if first else [])
    tok.train_from_iterator([TEXT], trainer)
    if not first:
        tok.add_special_tokens([AddedToken(s, special=True, normalized=False)
                                for s in special])
    if plain:
        tok.add_tokens([AddedToken(s, special=False, normalized=False)
                        for s in plain])
    if post:
        tok.post_processor = post(tok)
    return Tok(tok, special, eos, bos, template, pre, plain)


def tok_smollm():
    return byte_level(
        65, ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<repo_name>"],
        pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                 pre_tokenizers.ByteLevel(add_prefix_space=False)]),
        "smollm", "<|im_end|>", None, SMOLLM_TEMPLATE)


def tok_qwen(template):
    return byte_level(
        60, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(QWEN_RE), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]),
        "qwen2", "<|im_end|>", None, template, normalizer=normalizers.NFC(),
        plain=["<think>", "</think>"] if template is QWEN3_TEMPLATE else ())


def tok_llama3():
    def post(tok):
        b = "<|begin_of_text|>"
        return processors.Sequence([
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(
                single=b + " $A", pair=b + " $A " + b + ":1 $B:1",
                special_tokens=[(b, tok.token_to_id(b))])])
    return byte_level(
        58, ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>",
             "<|end_header_id|>", "<|eot_id|>"],
        pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(LLAMA3_RE), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]),
        "llama-bpe", "<|eot_id|>", "<|begin_of_text|>", LLAMA3_TEMPLATE, post=post)


def tok_spm():
    """Llama-2 / Mistral style: byte fallback, a space in front."""
    t = Tokenizer(models.BPE(unk_token="<unk>"))
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=False)
    text = [ln for ln in TEXT.splitlines() if ln.isascii()]
    t.train_from_iterator(text, trainers.BpeTrainer(
        vocab_size=140, show_progress=False, max_token_length=8))
    j = json.loads(t.to_str())["model"]
    pieces = [p for p, _ in sorted(j["vocab"].items(), key=lambda e: e[1])]
    vocab = {"<unk>": 0, "<s>": 1, "</s>": 2}
    for b in range(256):
        vocab["<0x%02X>" % b] = 3 + b
    single = [p for p in pieces if len(p) == 1]
    # as sentencepiece orders them: merged pieces by rank, letters last
    for p in [p for p in pieces if len(p) > 1] + single:
        vocab.setdefault(p, len(vocab))
    # a merge's rank is its result's place in the vocabulary
    merges = sorted((tuple(m) for m in j["merges"]),
                    key=lambda m: vocab[m[0] + m[1]])
    tok = Tokenizer(models.BPE(vocab=vocab, merges=merges, unk_token="<unk>",
                               fuse_unk=True, byte_fallback=True))
    tok.normalizer = normalizers.Sequence([normalizers.Prepend("▁"),
                                           normalizers.Replace(" ", "▁")])
    tok.decoder = decoders.Sequence([decoders.Replace("▁", " "),
                                     decoders.ByteFallback(), decoders.Fuse(),
                                     decoders.Strip(" ", 1, 0)])
    tok.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)])
    tok.add_special_tokens([AddedToken(s, special=True, normalized=False)
                            for s in ("<unk>", "<s>", "</s>")])
    return Tok(tok, ["<unk>", "<s>", "</s>"], "</s>", "<s>", MISTRAL_TEMPLATE, "spm")
