#!/usr/bin/env python3
"""Write tests/golden/bad/template-*: chat templates that cannot be used.

    make_bad_templates.py

Beside each .jinja a .msg holds, on its first line, the line that is named (0:
none) and what the message must say.  Run from the repository root.
"""
LOOP = "{% for m in messages %}<|user|>{{ m.content }}{% endfor %}"

CASES = {
    "empty": ("", 0, "drops the message"),
    "tag": ("\n{% include 'x' %}", 2, "tag 'include' is not supported"),
    "tag-open": ("a\n{% for m in messages", 2, "tag without an end"),
    "block-open": ("{% if true %}\nx\n", 2,
                   "{% if %} of line 1 has no end tag"),
    "end-alone": ("x\n\n{% endfor %}", 3, "unexpected 'endfor'"),
    "string": ("{{ 'abc }}", 1, "string without an end"),
    "escape": ("{{ '\\xzz' }}", 1, "bad escape in a string"),
    "comment": ("{# never closed", 1, "comment without an end"),
    "raw": ("{% raw %}{{ x }}", 1, "raw block without {% endraw %}"),
    "bracket": ("{{ messages[0)] }}", 1, "bracket"),
    "number": ("{{ 99999999999999999999 }}", 1, "integer above 2^63 - 1"),
    "filter": ("{{ 'x' | frob }}", 1, "'frob'"),
    "break": ("{% break %}", 1, "'break' outside of a loop"),
    "recursive": ("{% for m in messages recursive %}{% endfor %}", 1,
                  "recursive loops are not supported"),
    "deep": ("{{ " + "(" * 400 + "1" + ")" * 400 + " }}", 1, "nested deeper"),
    "not-utf8": (b"{{ messages }}\xff", 0, "UTF-8"),
    "raise": ("{{ raise_exception('tools only') }}", 1, "tools only"),
    "endless": ("{% for i in range(999999999) %}{% for j in range(999999999) "
                "%}x{% endfor %}{% endfor %}", 1, "range"),
    "huge": ("{{ 'x' * 9999999999 }}", 1, ""),
    "drops": ("{% for m in messages %}<|user|>{{ m.content | upper }}"
              "{% endfor %}", 0, "drops the message"),
    "twice": (LOOP + "{{ messages[-1].content }}", 0, "twice"),
    "reversed": ("{% for m in messages[::-1] %}<|user|>{{ m.content }}"
                 "{% endfor %}", 0, "behind the knowledge"),
    "depends": ("{{ messages[-1].content | length }}" + LOOP, 0,
                "depends on the question"),
    "no-token": ("<s>{% for m in messages %}{{ m.content }}{% endfor %}", 0,
                 "no special token"),
}

for name, (text, line, message) in CASES.items():
    data = text if isinstance(text, bytes) else text.encode()
    with open(f"tests/golden/bad/template-{name}.jinja", "wb") as f:
        f.write(data)
    with open(f"tests/golden/bad/template-{name}.msg", "w") as f:
        f.write(f"{line} {message}\n")
