#!/usr/bin/env python3
"""Record what jinja2 renders, set up as transformers sets it up.

usage: tests/tools/make_chat_golden.py    (needs python3 with transformers and jinja2)

Writes tests/golden/chat/cases.json: an array of cases that
tests/unit/test_jinja.c renders again.  A case has "file" (a template beside
it) or "text", "vars", and "out", or "fails": true where jinja2 raises.
"""
import datetime
import json
import pathlib

from transformers.utils import chat_template_utils

NOW = 1764000000      # as in test_jinja.c


class Frozen(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        utc = datetime.timezone.utc
        return datetime.datetime.fromtimestamp(NOW, utc).replace(tzinfo=None)


chat_template_utils.datetime = Frozen
HERE = pathlib.Path(__file__).resolve().parent.parent / "golden" / "chat"

SYSTEM = {"role": "system", "content": "Know: é 日本.\n"}


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


CONVERSATIONS = [
    [SYSTEM, user("How long?")],
    [user(" <|end|> & 'quotes' ")],
    [SYSTEM, user("Q1"), assistant("A1"), user("Q2\n")],
    [user("Q1"), assistant("<think>\nhm\n</think>\n\nA1"), user("Q2"),
     assistant("<think>\nlast\n</think>\n\nA2")],
    [user("Q"), assistant("A", reasoning_content="\nbecause\n")],
    [user([{"type": "text", "text": "Look:"}, {"type": "image"}])],
    [user("Q"), assistant("", tool_calls=[{"function": {
        "name": "f", "arguments": {"a": 1, "b": [True, None, 'x"é']}}}]),
     {"role": "tool", "content": "42"}],
]
TOOLS = [{"type": "function", "function": {
    "name": "f", "parameters": {"type": "object", "properties": {
        "b": {"type": ["string", "null"]}, "A": {"type": "integer"}},
        "required": ["A"]}}}]

# every construct on its own; DATA is what they see
DATA = {
    "s": "Héllo wörld", "e": "", "n": None, "i": 7, "f": 2.5, "t": True,
    "l": [3, 1, 2], "w": ["b", "A", "c", "a"],
    "d": {"b": 1, "a": {"x": [1, 2]}, "items": 5},
    "p": [{"k": "x", "v": 1}, {"k": "y", "v": 0}, {"k": "x", "v": None}],
    "ws": " \t\n\u00a0x y\u3000\n",
}
SNIPPETS = r"""
{{ s }}|{{ e }}|{{ n }}|{{ i }}|{{ f }}|{{ t }}|{{ l }}|{{ d }}|{{ missing }}
{{ 1 + 2 * 3 - 4 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }}
{{ 1e3 }} {{ 1.0 }} {{ 0.1 + 0.2 }} {{ 1e16 }} {{ 1e-5 }} {{ 123456789.125 }} {{ 1_000 }} {{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 1e22 }} {{ 100.0 * 1.1 }}
{{ 'a' ~ 1 ~ none ~ true ~ missing ~ [1, 'x'] }}
{{ 'a' + 'b' * 3 }} {{ 2 * 'xy' }} {{ [1] + [2] }} {{ [0] * 3 }} {{ (1,) + (2, 3) }} {{ (1,) }} {{ () }}
{{ 1 < 2 < 3 }} {{ 1 < 2 > 5 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ 1 == 1.0 == true }} {{ 'a' != 'b' }} {{ 1 <= 1 }} {{ 2 >= 3 }}
{{ 'llo' in s }} {{ 2 in l }} {{ 'b' in d }} {{ 'z' not in d }} {{ 'x' in missing }} {{ 9 not in l }}
{{ not t }} {{ t and e }} {{ e or 'x' }} {{ not e and t }} {{ n or missing or 0 }} {{ not 1 == 2 }}
{{ 'yes' if t else 'no' }} {{ 'only' if e }} {{ 'a' if e else 'b' if n else 'c' }}
{{ l[0] }} {{ l[-1] }} {{ l[9] }} {{ l.0 }} {{ s[1] }} {{ s[-1] }} {{ s[99] }} {{ d['b'] }} {{ d.b }} {{ d.a.x[1] }} {{ d['nope'] }}
{{ l[1:] }} {{ l[:-1] }} {{ l[::-1] }} {{ l[-2:] }} {{ s[1:4] }} {{ s[::-1] }} {{ s[::2] }} {{ s[8:2:-2] }} {{ l[5:] }} {{ l[:99] }} {{ s[-3:] }} {{ l[::9999999999] }}
{{ d.items() | list }} {{ d['items'] }} {{ d.keys() | list }} {{ d.values() | list }} {{ d.get('b') }} {{ d.get('z') }} {{ d.get('z', 4) }} {{ d | items | list }}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %} {% for k in d %}{{ k }},{% endfor %} {% for c in 'né' %}<{{ c }}>{% endfor %} {% for x in missing %}{% else %}empty{% endfor %}
{{ s | upper }} {{ s | lower }} {{ s | title }} {{ 'hELLO wORLD' | capitalize }} {{ s.upper() }} {{ 'ÉÀ'.lower() }} {{ "a b3x" | title }} {{ 'straße' | upper }}
[{{ ws | trim }}] [{{ ws.strip() }}] [{{ ws.lstrip() }}] [{{ ws.rstrip() }}] [{{ 'xxaxx'.strip('x') }}] [{{ 'éaé' | trim('é') }}] [{{ 'abc'.rstrip('cb') }}]
{{ 'a,b,c'.split(',') }} {{ 'a,b,c'.split(',', 1) }} {{ ' a  b '.split() }} {{ 'a,b,c'.rsplit(',', 1) }} {{ 'abc'.split('x') }} {{ ' a b c '.split(none, 1) }} {{ 'a\nb\r\nc'.splitlines() }}
{{ 'aXbX'.replace('X', '-') }} {{ 'aXbX'.replace('X', '-', 1) }} {{ 'aXbX' | replace('X', 'é') }} {{ 'ab'.replace('', '.') }}
{{ s.startswith('Hé') }} {{ s.endswith('ld') }} {{ s.startswith(('x', 'H')) }} {{ s.find('l') }} {{ s.find('zz') }} {{ s.rfind('l') }} {{ 'aaa'.count('a') }} {{ 'a-b-c'.partition('-') }} {{ 'a-b-c'.rpartition('-') }} {{ 'pre-x'.removeprefix('pre-') }} {{ 'x.py'.removesuffix('.py') }}
{{ 'abc'.isalpha() }} {{ '12'.isdigit() }} {{ 'a1'.isalnum() }} {{ ' \n'.isspace() }} {{ 'ab'.islower() }} {{ 'Ab'.isupper() }} {{ ''.isdigit() }}
{{ '-'.join(['a', 'b']) }} {{ ['a', 1, none] | join('-') }} {{ p | join(',', attribute='k') }} {{ l | join }}
{{ '%s has %d at %.2f' % ('x', 3, 1.5) }} {{ '%s' % 5 }} {{ '100%%' % () }} {{ '%05d|%x|%r' | format(42, 255, 'q') }} {{ '{} {}'.format('a', 2) }} {{ '{1}{0}{k}{{}}'.format(1, 2, k=3) }}
{{ l | length }} {{ s | length }} {{ d | count }} {{ missing | length }} {{ e | length }} {{ '日本' | length }}
{{ l | first }} {{ l | last }} {{ l | sort }} {{ w | sort }} {{ w | sort(reverse=true) }} {{ w | sort(case_sensitive=true) }} {{ l | min }} {{ l | max }} {{ l | sum }} {{ p[:2] | sum('v') }} {{ ['b', 'A'] | min }} {{ p[:2] | sort(attribute='v') }}
{{ l | reverse | list }} {{ s | reverse }} {{ l | map('string') | list }} {{ p | map(attribute='k') | list }} {{ p | map(attribute='zz', default=0) | list }} {{ w | map('upper') | join }} {{ ['a', 'A', 'b'] | unique | list }}
{{ p | selectattr('v') | list | length }} {{ p | selectattr('k', 'equalto', 'x') | list | length }} {{ p | rejectattr('v', 'none') | list | length }} {{ l | select('odd') | list }} {{ l | reject('gt', 1) | list }} {{ n | select | list }} {{ [0, 1, ''] | select | list }} {{ [0, 1] | reject | list }}
{{ missing | default('x') }} {{ e | default('x') }} {{ e | default('x', true) }} {{ n | d('y', boolean=true) }} {{ missing | default }}
{{ d | dictsort }} {{ {'b': 1, 'A': 3, 'c': 2} | dictsort }} {{ {'b': 1, 'a': 3} | dictsort(by='value') }} {{ {'b': 1, 'a': 3} | dictsort(reverse=true) }} {{ {'b': 1, 'A': 3} | dictsort(true) }}
{{ d | tojson }} {{ s | tojson }} {{ 'a"\\\n\t\u0001é</x>' | tojson }} {{ n | tojson }} {{ f | tojson }} {{ [] | tojson }} {{ {} | tojson }} {{ t | tojson }}
{{ d | tojson(indent=2) }}{{ [] | tojson(indent=1) }}{{ d | tojson(indent='--') }}
{{ d | tojson(separators=(',', ':')) }} {{ {'b': 1, 'a': [1]} | tojson(sort_keys=true) }} {{ 'é😀' | tojson(ensure_ascii=true) }} {{ {1: 2, none: 3} | tojson }}
{{ '3' | int }} {{ 'x' | int }} {{ 'x' | int(9) }} {{ 3.9 | int }} {{ '0x1f' | int(base=16) }} {{ ' 12 ' | int }} {{ '2.5' | float }} {{ 'z' | float }} {{ 3 | float }} {{ '4.7' | int }}
{{ 2.567 | round(2) }} {{ 2.5 | round }} {{ 3.5 | round }} {{ 2.1 | round(method='ceil') }} {{ 2.9 | round(0, 'floor') }} {{ -3 | abs }} {{ -2.5 | abs }} {{ 1234.0 | round(-2) }}
{{ 'a\nb\n\nc' | indent }} {{ 'a\nb' | indent(2, true) }} {{ 'a\n\nb' | indent(2, blank=true) }} {{ 'a\nb' | indent('> ') }}
{{ i | string }} {{ [1] | string }} {{ 'x' | safe }} {{ 'abc' | list }} {{ d | list }} {{ '<a href="x">\'&' | e }}
{{ i is defined }} {{ missing is undefined }} {{ n is none }} {{ n is not none }} {{ s is string }} {{ d is mapping }} {{ l is sequence }} {{ l is iterable }} {{ s is iterable }} {{ i is iterable }} {{ missing is iterable }} {{ d is sequence }} {{ n is sequence }}
{{ i is number }} {{ t is number }} {{ t is integer }} {{ i is integer }} {{ f is float }} {{ t is boolean }} {{ t is true }} {{ false is false }} {{ i is odd }} {{ i is even }} {{ i is divisibleby 7 }} {{ i is divisibleby(2) }} {{ i is eq 7 }} {{ i is ne(7) }} {{ i is gt 3 }} {{ i is in [7] }} {{ i is sameas 7 }} {{ 'ab' is lower }} {{ 'AB' is upper }} {{ i is lt 3 or t }} {{ range is callable }} {{ 'trim' is filter }} {{ 'odd' is test }} {{ not i is odd }}
{{ range(3) | list }} {{ range(1, 4) | list }} {{ range(5, 0, -2) | list }} {{ dict(a=1) }} {{ dict({'x': 1}, y=2) }} {{ namespace(a=1).a }}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set x = [1, 2] %}{% set c, d2 = x %}{{ c + d2 }}{% for (a, b) in [[1, 2]] %}{{ a }}-{{ b }}{% endfor %}
{% set ns = namespace(x=1) %}{% for i in l %}{% set ns.x = ns.x + i %}{% set y = i %}{% endfor %}{{ ns.x }}{{ y }}
{% set x %}a{{ i }}{% endset %}[{{ x }}]{% set z | upper | trim %} q {% endset %}[{{ z }}]
{% macro m(a, b=2, c='x') %}({{ a }},{{ b }},{{ c }}){% endmacro %}{{ m(1) }}{{ m(1, c=3) }}{{ m() }}{{ m(b=[1], a=none) }}{{ m(*[7, 8]) }}{{ m(**{'c': 9}) }}{{ m.name }}
{% macro v() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ v(1, 2, k=3) }}
{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}
{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% endfor %}
{% for i in l if i > 1 %}{{ loop.index }}/{{ loop.length }}:{{ i }} {% endfor %}{% for i in [] %}{% else %}none{% endfor %}{% for i in l %}{% for j in w %}{{ loop.depth }}{% endfor %}{% endfor %}
{{ 'a' 'b' "c" }} {{ 'it\'s \"q\" \\ \x41 \u00e9 \U0001F600 \101 \q' }} {{ "tab\there" }}
{{ {'a': 1, 'b': [1, {'c': none}]} }} {{ {1: 'x', 'y': true}[1] }} {{ [1, 2,] }} {{ {'a': 1,} }} {{ "it's" }} {{ ["it's", 'a"b', 'both\'"', '\n\t\\', 'é\u200b'] }}
{{ -1 | abs }} {{ +3 }} {{ - 3 }} {{ (1, 2)[0] }} {{ (l)[0] }} {{ [[1, 2], [3]][1][0] }} {{ -l[0] }} {{ 2 ** 3 ** 2 }}
{{ s | attr('upper') is callable }} {{ s.nope is defined }} {{ n.x is defined }} {{ d | attr('b') is defined }}
{% if l | select('gt', 100) %}generator{% endif %}{% if [] %}list{% endif %}{% if {} %}dict{% endif %}{% if 0.0 %}zero{% endif %}{% if ' ' %}blank{% endif %}
{{ missing == missing2 }} {{ missing == none }} {{ missing ~ 'x' }} {{ [missing] | length }} {{ d == {'b': 1} }} {{ [1, [2]] == [1, [2]] }} {{ (1, 2) == [1, 2] }}
{% if t %}{% set q = 1 %}{% endif %}{{ q }}{% with q = 2, r = q %}{{ q }}{{ r }}{% endwith %}{{ q }}
{{ missing.x }}
{{ missing['x'] }}
{{ missing + 'x' }}
{{ missing() }}
{{ 'a' + 1 }}
{{ n + 1 }}
{{ 1 < 'a' }}
{{ n[1:] }}
{{ l | length2 }}
{{ x is nosuchtest }}
{{ l.append(1) }}
{{ d.update({}) }}
{{ raise_exception('no') }}
{{ 1 / 0 }}
{{ l | map('string') | length }}
{% for x in n %}{% endfor %}
{% for x in 5 %}{% endfor %}
{% for a, b in [[1]] %}{% endfor %}
{{ s.split('') }}
{{ range(1000000) }}
{{ namespace(_x=1) }}
{% set l.x = 1 %}
{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}
{{ m(z=1) }}{% macro m(a) %}{% endmacro %}
{{ missing | tojson }}
{% if %}x{% endif %}
{{ }}
{% endfor %}
{% if t %}
{{ 'x }}
{{ [1, 2 }}
{% for in l %}{% endfor %}
{{ 1 if }}
{# open
{% raw %} x
{{ a b }}
{{ 'a' is }}
{% break %}
""".strip("\n").split("\n")


def main():
    cases = []

    def case(what, text, variables):
        try:
            out = chat_template_utils._compile_jinja_template(text).render(
                **variables)
            result = {"out": out}
        except Exception:
            result = {"fails": True}
        cases.append({**what, "vars": variables, **result})

    for path in sorted(HERE.glob("*.jinja")):
        text = path.read_text(encoding="utf-8")
        for messages in CONVERSATIONS:
            for more in ({"add_generation_prompt": True},
                         {"enable_thinking": False, "tools": TOOLS,
                          "add_generation_prompt": True},
                         {"add_generation_prompt": False}):
                variables = {"messages": messages, "tools": None,
                             "bos_token": "<s>", "eos_token": "</s>", **more}
                case({"file": path.name}, text, variables)
    for text in SNIPPETS:
        case({"text": text}, text, DATA)
    for text in ("a\r\n{% if true %}\r\nb\rc{% endif %}\n\n", "x\n", "\n",
                 "", "{{ s }}\n{# c #}\n  {% set q = 1 %}  \nend\n"):
        case({"text": text}, text, DATA)
    with open(HERE / "cases.json", "w", encoding="utf-8") as f:
        f.write("[\n")
        f.write(",\n".join(json.dumps(c, ensure_ascii=False) for c in cases))
        f.write("\n]\n")
    print(len(cases), "cases,", sum("fails" in c for c in cases), "fail")


if __name__ == "__main__":
    main()
