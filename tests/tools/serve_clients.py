#!/usr/bin/env python3
"""Clients of the OpenAI protocol against a cag-serve, one TAP test for each.

    serve_clients.py CAG_SERVE CAG_ASK CACHE

Run by check_serve.sh in an environment with openai, llm and langchain-openai.
Each answer must be the one cag-ask gives.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.request

import openai
from langchain_openai import ChatOpenAI

cag_serve, cag_ask, cache = sys.argv[1:]
MODEL = os.path.splitext(os.path.basename(cache))[0]
QUESTION = "How many minutes can Sparrow-7 fly on a full charge?"
N = 24
tests = []


def test(fn):
    tests.append(fn)
    return fn


def asked(*more):
    return subprocess.run([cag_ask, "-q", "-n", str(N), *more, cache, QUESTION],
                          capture_output=True, text=True,
                          check=True).stdout.rstrip("\n")


@test
def openai_chat():
    r = client.chat.completions.create(
        model=MODEL, max_completion_tokens=N,
        messages=[{"role": "user", "content": QUESTION}])
    assert r.choices[0].message.content == want
    assert r.usage.prompt_tokens_details.cached_tokens > 0
    assert r.model_extra["cag"]["evidence"][0]["text"]


@test
def openai_chat_stream():
    text, usage = "", None
    with client.chat.completions.create(
            model=MODEL, max_tokens=N, stream=True,
            stream_options={"include_usage": True},
            messages=[{"role": "user", "content": QUESTION}]) as stream:
        for chunk in stream:
            if chunk.choices and chunk.choices[0].delta.content:
                text += chunk.choices[0].delta.content
            usage = chunk.usage or usage
    assert text == want, text
    assert usage.completion_tokens > 0


@test
def openai_chat_goes_on():
    turns = [{"role": "user", "content": QUESTION},
             {"role": "assistant", "content": want},
             {"role": "user", "content": "And who leads the project?"}]
    a = [client.chat.completions.create(model=MODEL, max_tokens=N,
                                        messages=turns) for _ in range(2)]
    assert a[0].choices[0].message.content == a[1].choices[0].message.content
    assert (a[1].usage.prompt_tokens_details.cached_tokens >
            a[0].usage.prompt_tokens_details.cached_tokens)


@test
def openai_completions():
    r = client.completions.create(model=MODEL, prompt=QUESTION, max_tokens=N)
    assert r.choices[0].text == want


@test
def openai_responses():
    r = client.responses.create(model=MODEL, input=QUESTION,
                                max_output_tokens=N)
    assert r.output_text == want
    assert r.usage.input_tokens_details.cached_tokens > 0
    r = client.responses.create(
        model=MODEL, max_output_tokens=N,
        input=[{"role": "user",
                "content": [{"type": "input_text", "text": QUESTION}]}])
    assert r.output_text == want


@test
def openai_responses_stream():
    text, kinds = "", []
    with client.responses.stream(model=MODEL, input=QUESTION,
                                 max_output_tokens=N) as stream:
        for event in stream:
            kinds.append(event.type)
            if event.type == "response.output_text.delta":
                text += event.delta
        last = stream.get_final_response()
    assert text == want and last.output_text == want
    assert kinds[0] == "response.created"
    assert kinds[-1] in ("response.completed", "response.incomplete")


@test
def openai_errors():
    for call, error in (
            (lambda: client.chat.completions.create(
                model="none", messages=[{"role": "user", "content": "a"}]),
             openai.NotFoundError),
            (lambda: client.chat.completions.create(
                model=MODEL, logit_bias={"5": 1},
                messages=[{"role": "user", "content": "a"}]),
             openai.BadRequestError),
            (lambda: client.responses.create(model=MODEL, input="a",
                                             previous_response_id="resp_1"),
             openai.BadRequestError),
            (lambda: client.chat.completions.create(
                model=MODEL,
                messages=[{"role": "user", "content": "word " * 20000}]),
             openai.BadRequestError)):
        try:
            call()
        except error as e:
            assert e.body["message"]
            assert e.request_id
            code = e.code
        else:
            raise AssertionError(f"no {error.__name__}")
    assert code == "context_length_exceeded"


@test
def openai_models():
    assert [m.id for m in client.models.list()] == [MODEL]
    assert client.models.retrieve(MODEL).id == MODEL


@test
def langchain_chat():
    chat = ChatOpenAI(model=MODEL, base_url=base + "/v1", api_key="none",
                      max_tokens=N)
    assert chat.invoke(QUESTION).content == want
    assert "".join(c.content for c in chat.stream(QUESTION)) == want


@test
def langchain_responses():
    chat = ChatOpenAI(model=MODEL, base_url=base + "/v1", api_key="none",
                      max_tokens=N, use_responses_api=True)
    assert chat.invoke(QUESTION).text == want
    assert "".join(c.text for c in chat.stream(QUESTION)) == want


@test
def llm_with_a_model_entry():
    with tempfile.TemporaryDirectory(prefix="cag-llm-") as home:
        with open(os.path.join(home, "extra-openai-models.yaml"), "w",
                  encoding="ascii") as f:
            f.write(f"- model_id: {MODEL}\n  model_name: {MODEL}\n"
                    f"  api_base: {base}/v1\n")
        env = dict(os.environ, LLM_USER_PATH=home, OPENAI_API_KEY="none")
        for more in ([], ["--no-stream"]):
            out = subprocess.run(
                [os.path.join(os.path.dirname(sys.executable), "llm"), "-m",
                 MODEL, "-o", "max_tokens", str(N), *more, QUESTION],
                env=env, capture_output=True, text=True, check=True).stdout
            assert out.rstrip("\n") == want, out


@test
def open_webui():
    """What it sends: the list of models, then streams with members of its own
    that are only for providers that know them."""
    def call(path, body=None):
        r = urllib.request.Request(
            base + path, json.dumps(body).encode() if body else None,
            {"Authorization": "Bearer none", "Content-Type":
             "application/json", "X-OpenWebUI-User-Name": "a"})
        with urllib.request.urlopen(r, timeout=120) as f:
            return f.read().decode()

    models = json.loads(call("/v1/models"))
    assert models["object"] == "list" and models["data"][0]["id"] == MODEL
    events = call("/v1/chat/completions", {
        "model": MODEL, "stream": True, "max_tokens": N,
        "messages": [{"role": "user", "content": QUESTION}]})
    text = "".join(
        json.loads(x[6:])["choices"][0]["delta"].get("content", "")
        for x in events.splitlines() if x.startswith("data: {"))
    assert text == want
    assert events.rstrip().endswith("data: [DONE]")
    title = json.loads(call("/v1/chat/completions", {
        "model": MODEL, "stream": False, "max_tokens": 8,
        "metadata": {"task": "title_generation"},
        "messages": [{"role": "user", "content": "A title: " + text}]}))
    assert title["choices"][0]["message"]["content"]


want = asked()
server = subprocess.Popen([cag_serve, "--listen", "127.0.0.1:0", cache],
                          stderr=subprocess.PIPE, text=True)
try:
    for line in server.stderr:
        hit = re.match(r"cag-serve: listening on (http\S+)", line)
        if hit:
            base = hit.group(1)
            break
    else:
        raise SystemExit("cag-serve does not listen")
    client = openai.OpenAI(base_url=base + "/v1", api_key="none",
                           max_retries=0)
    print(f"1..{len(tests)}")
    failed = 0
    for i, fn in enumerate(tests):
        try:
            fn()
            print(f"ok {i + 1} - {fn.__name__}", flush=True)
        except Exception as e:  # a test reports, and the others run
            failed += 1
            print(f"not ok {i + 1} - {fn.__name__}")
            print(f"# {type(e).__name__}: {e}", flush=True)
finally:
    server.terminate()
    server.wait()
sys.exit(1 if failed else 0)
