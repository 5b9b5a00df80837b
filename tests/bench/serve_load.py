#!/usr/bin/env python3
"""Many clients at one cache over HTTP: tokens a second, time to the first token,
memory; beside `cag-ask --batch' of the same questions, and llama-server with as
many slots as clients.

    tests/bench/serve_load.py --model M.gguf --text FILE --clients 1,16,64 \
        [--llama-bin DIR] [--questions N] [--tokens N] [--json OUT]

Each client asks one question after the other and reads its stream to the end.
A question of its own for each, of one length; answers of --tokens tokens.
llama-server keeps the text's keys and values in each slot (cache_prompt), which
are filled before the clock runs.  CAG_BIN is where cag's tools are.
"""
import argparse
import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time

CAG = os.environ.get("CAG_BIN", "build/release")


def question(i):
    return "Question %d: what does the text say about zone %d?" % (i, i % 97)


def rss_anon(pid):
    with open("/proc/%d/status" % pid, encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f
                    if line.startswith("RssAnon"))


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(port, path, process):
    end = time.monotonic() + 120
    while time.monotonic() < end:
        if process.poll() is not None:
            raise SystemExit("the server has ended: %d" % process.returncode)
        try:
            c = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            c.request("GET", path)
            if c.getresponse().status == 200:
                return
        except OSError:
            pass
        time.sleep(0.05)
    raise SystemExit("the server does not come up")


def stream(port, path, body):
    """Seconds to the first event with text, and all events with text."""
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    start, first, n = time.monotonic(), None, 0
    c.request("POST", path, json.dumps(body),
              {"Content-Type": "application/json"})
    r = c.getresponse()
    if r.status != 200:
        raise SystemExit("status %d: %s" % (r.status, r.read()[:300]))
    last = {}
    for line in r:
        if not line.startswith(b"data: {"):
            continue
        last = json.loads(line[6:])
        text = last.get("content") or any(
            x.get("delta", {}).get("content") for x in last.get("choices", []))
        if text:
            first = first or time.monotonic() - start
            n += 1
        elif last.get("usage"):
            n = last["usage"]["completion_tokens"]
        if last.get("timings"):
            n = last["timings"]["predicted_n"]
    c.close()
    return first, n


def load(n_client, n_question, ask):
    """ask(client, question) -> (first, tokens); in threads."""
    firsts, tokens, lock = [], [], threading.Lock()
    left = iter(range(n_question))

    def client(k):
        while True:
            with lock:
                i = next(left, None)
            if i is None:
                return
            first, n = ask(k, i)
            with lock:
                if first is not None:
                    firsts.append(first)
                tokens.append(n)

    threads = [threading.Thread(target=client, args=(k,))
               for k in range(n_client)]
    start = time.monotonic()
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    took = time.monotonic() - start
    firsts.sort()
    def at(share):
        return firsts[min(len(firsts) - 1, int(share * len(firsts)))]

    return {"tokens_per_s": sum(tokens) / took, "tokens": sum(tokens),
            "first_p50": at(0.5), "first_p95": at(0.95), "first_p99": at(0.99)}


def cag_serve(o, kvc, n_client, n_question):
    port = free_port()
    p = subprocess.Popen([os.path.join(CAG, "cag-serve"), "-q", "--listen",
                          "127.0.0.1:%d" % port, "-t", str(o.threads), "-j",
                          str(min(n_client, 256)), "--no-evidence", kvc],
                         stderr=subprocess.DEVNULL)
    try:
        wait_for(port, "/health", p)

        def ask(_, i):
            return stream(port, "/v1/chat/completions", {
                "model": "load", "stream": True, "max_tokens": o.tokens,
                "stream_options": {"include_usage": True},
                "messages": [{"role": "user", "content": question(i)}]})

        ask(0, 0)
        r = load(n_client, n_question, ask)
        r["private_kb"] = rss_anon(p.pid)
        return r
    finally:
        p.terminate()
        p.wait()


def cag_batch(o, kvc, n_client, n_question, work):
    rows = os.path.join(work, "rows.jsonl")
    with open(rows, "w", encoding="ascii") as f:
        for i in range(n_question):
            f.write(json.dumps({"question": question(i)}) + "\n")
    start = time.monotonic()
    out = subprocess.run(
        [os.path.join(CAG, "cag-ask"), "-q", "-t", str(o.threads), "-j",
         str(n_client), "-n", str(o.tokens), "--batch", rows, kvc],
        check=True, stdout=subprocess.PIPE).stdout
    took = time.monotonic() - start
    n = sum(json.loads(line)["usage"]["generated_tokens"]
            for line in out.splitlines())
    return {"tokens_per_s": n / took, "tokens": n}


def llama(o, prompt, n_client, n_question):
    """The cached prompt, as text, and questions after it."""
    port = free_port()
    env = dict(os.environ, LD_LIBRARY_PATH=o.llama_bin)
    p = subprocess.Popen(
        [os.path.join(o.llama_bin, "llama-server"), "-m", o.model, "-t",
         str(o.threads), "--host", "127.0.0.1", "--port", str(port), "-np",
         str(n_client), "-c", str(o.context * n_client), "-fa", "on",
         "--no-webui"], env=env, stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL)
    try:
        wait_for(port, "/health", p)

        def ask(k, i, n=None):
            return stream(port, "/completion", {
                "prompt": prompt % question(i), "stream": True,
                "n_predict": n or o.tokens, "temperature": 0,
                "ignore_eos": True, "cache_prompt": True, "id_slot": k})

        for k in range(n_client):
            ask(k, k, 1)
        r = load(n_client, n_question, ask)
        r["private_kb"] = rss_anon(p.pid)
        return r
    finally:
        p.terminate()
        p.wait()


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    a.add_argument("--model", required=True)
    a.add_argument("--text", required=True)
    a.add_argument("--clients", default="1,16,64")
    a.add_argument("--questions", type=int, default=4, help="for each client")
    a.add_argument("--tokens", type=int, default=48)
    a.add_argument("--threads", type=int, default=2)
    a.add_argument("--context", type=int, default=5120, help="of a slot")
    a.add_argument("--llama-bin")
    a.add_argument("--llama-most", type=int, default=16,
                   help="slots; each reads the whole text before the clock runs")
    a.add_argument("--json")
    o = a.parse_args()
    result = []
    with tempfile.TemporaryDirectory() as work:
        kvc = os.path.join(work, "load.kvc")
        subprocess.run([os.path.join(CAG, "cag-build"), "-q", "--codec", "f16",
                        "-m", o.model, "-o", kvc, o.text], check=True)
        shown = subprocess.run([os.path.join(CAG, "cag-ask"), "-q", "--dry-run",
                                "--json", kvc, "QQQQ"], check=True,
                               stdout=subprocess.PIPE).stdout
        prompt = json.loads(shown)["prompt"].replace("%", "%%")
        prompt = prompt.replace("QQQQ", "%s")
        for n in [int(x) for x in o.clients.split(",")]:
            arms = {"cag-ask --batch": lambda: cag_batch(
                        o, kvc, n, n * o.questions, work),
                    "cag-serve": lambda: cag_serve(
                        o, kvc, n, n * o.questions)}
            if o.llama_bin and n <= o.llama_most:
                arms["llama-server"] = lambda: llama(
                    o, prompt, n, n * o.questions)
            for name, run in arms.items():
                r = {"clients": n, "arm": name, **run()}
                result.append(r)
                print("%4d %-16s %7.1f tokens/s" % (n, name, r["tokens_per_s"])
                      + (", first token p50 %.3f p95 %.3f p99 %.3f s, private "
                         "%.1f MB" % (r["first_p50"], r["first_p95"],
                                      r["first_p99"], r["private_kb"] / 1024)
                         if "first_p50" in r else ""), flush=True)
    if o.json:
        with open(o.json, "w", encoding="utf-8") as f:
            json.dump(result, f, indent=1)
            f.write("\n")


if __name__ == "__main__":
    sys.exit(main())
