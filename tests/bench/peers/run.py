#!/usr/bin/env python3
"""cag beside llama.cpp, OpenVINO and transformers: the same weights file, text, token
ids and threads, in one run, as one table with ratios.

    tests/bench/peers/run.py --model M.gguf --text FILE --threads 2 \
        --llama-bin DIR --openvino-python PYTHON \
        --transformers-python PYTHON --json OUT.json

Peers that are not given are left out.  LLAMA_BIN is a directory with
llama-server and llama-batched-bench (built from the sources in the
llama-cpp-python package); PYTHON is an interpreter that has openvino-genai,
or transformers, torch and gguf.  CAG_BIN, LLAMA_BIN, OPENVINO_PYTHON and
TRANSFORMERS_PYTHON name the same in the environment.

Arms take turns in every round, so that a machine that gets busy slows all of
them; the table gives each arm's best of all rounds and the ratio of the bests,
and the ratio of the medians beside it.  A peer that is asked from its saved
cache must have evaluated exactly the tokens of the question: otherwise its
cache missed, and the figure is void.
"""
import argparse
import hashlib
import http.client
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CODECS = ("f16", "f16z", "q8h")
QUESTION = "Which permissions does the text grant?"
# name -> (unit, is more better)
FIGURES = {
    "build": ("tokens/s", True),
    "start_to_first_token": ("s", False),
    "decode_0": ("tokens/s", True),
    "decode_full": ("tokens/s", True),
    "kv_bytes_per_token": ("bytes", False),
    "private_bytes": ("bytes", False),
}


class Void(Exception):
    """A figure that cannot be believed."""


class Run:
    def __init__(self, opts):
        self.o = opts
        self.values = {}          # (figure, arm) -> [value]
        self.void = []
        self.load = []
        self.report = {}          # of cag-bench; the peers' part is added
        self.about = {}

    def add(self, figure, arm, value):
        self.values.setdefault((figure, arm), []).append(value)
        print(f"  {figure:22} {arm:28} {value:.5g}", file=sys.stderr)

    def try_arm(self, arm, fn, *args):
        try:
            fn(self, arm, *args)
        except (Void, OSError, subprocess.SubprocessError, ValueError,
                KeyError, http.client.HTTPException) as e:
            self.void.append(f"{arm}: {type(e).__name__}: {e}")
            print(f"  void: {self.void[-1]}", file=sys.stderr)
        self.save()

    def save(self):
        """After every arm: a run that is cut short is still a run."""
        if self.o.json:
            with open(self.o.json, "w", encoding="utf-8") as f:
                json.dump(document(self), f, indent=1)
                f.write("\n")


def command(argv, **kw):
    p = subprocess.run(argv, capture_output=True, text=True, **kw)
    if p.returncode != 0:
        raise Void(f"{argv[0]}: status {p.returncode}: {p.stderr[-300:]}")
    return p.stdout


def figure_of(report, name, which="median", **want):
    for f in report["figures"]:
        if f["name"] == name and all(f[k] == v for k, v in want.items()):
            return f[which]
    raise Void(f"no {name} in the report")


# -------------------------------------------------------------------- cag

def cag(o, tool):
    return os.path.join(o.cag_bin, tool)


def cag_prepare(o, work):
    """Caches, and the ids of prefix and question."""
    kvc = {}
    for codec in CODECS:
        kvc[codec] = os.path.join(work, codec + ".kvc")
    for codec, more in (("f16", []), ("q8h", ["--max-loss", "1"])):
        command([cag(o, "cag-build"), "-q", "-m", o.model, "-t",
                 str(o.threads), "--codec", codec, "-o", kvc[codec]] + more +
                o.text)
    command([cag(o, "cag-build"), "-q", "--recode", "f16z", kvc["f16"], "-o",
             kvc["f16z"]])
    prompt = os.path.join(work, "prompt.txt")
    view = json.loads(command([cag(o, "cag-ask"), "-q", "--dry-run", "--json",
                               kvc["f16"], QUESTION]))
    with open(prompt, "w", encoding="utf-8") as f:
        f.write(view["prompt"])
    prefix = json.loads(command([cag(o, "cag-inspect"), "--tokens", "--json",
                                 kvc["f16"]]))
    whole = ids_of(o, prompt)
    if whole[:len(prefix)] != prefix:
        raise SystemExit("the ids of the prompt do not begin with the cache's")
    if len(whole) - len(prefix) != view["question_tokens"]:
        raise SystemExit("the ids of the question are not cag-ask's")
    return kvc, prefix, whole[len(prefix):]


def ids_of(o, path):
    out = command([cag(o, "cag-inspect"), "--ids", "--parse-special", "-m",
                   o.model, path])
    return [int(x) for x in out.replace(",", " ").replace("[", " ")
            .replace("]", " ").split()]


def cag_report(o, cmd, kvc, *more, repeat=1):
    return json.loads(command(
        [cag(o, "cag-bench"), cmd, "-q", "-r", str(repeat), "--warmup", "0",
         "-t",
         str(o.threads), "-n", str(o.gen), "-o", "json", *more, kvc]))


def first_byte(argv):
    start = time.monotonic()
    p = subprocess.Popen(argv, stdout=subprocess.PIPE,
                         stdin=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL)
    byte = os.read(p.stdout.fileno(), 1)
    s = time.monotonic() - start
    p.stdout.read()
    if p.wait() != 0 or not byte:
        raise Void(f"{argv[0]}: status {p.returncode}")
    return s


def cag_first(run, arm, kvc):
    o = run.o
    for _ in range(o.starts):
        run.add("start_to_first_token", arm, first_byte(
            [cag(o, "cag-ask"), "-q", "-t", str(o.threads), "-n", str(o.gen),
             kvc, QUESTION]))


def cag_build(run, arm, kvc, precision):
    r = cag_report(run.o, "build", kvc, "--precision", precision)
    n = [f for f in r["figures"] if f["name"] == "prefill"][0]
    run.add("build", arm, n["context"] / n["median"])


def cag_figures(run, arm, kvc):
    o = run.o
    r = cag_report(o, "load", kvc)
    run.add("kv_bytes_per_token", arm, figure_of(r, "kv_bytes_per_tok"))
    r = cag_report(o, "decode", kvc, repeat=o.bursts)
    depth = max(f["context"] or 0 for f in r["figures"])
    for name, n in (("decode_0", 0), ("decode_full", depth)):
        run.add(name, arm, figure_of(r, "decode_rate", "max", context=n))
    if o.batch:
        r = cag_report(o, "batch", kvc, "--batch", ",".join(map(str, o.batch)))
        for b in o.batch:
            run.add(f"batch_{b}", arm, figure_of(r, "batch_rate", batch=b))


def cag_memory(run, arm, kvc):
    r = cag_report(run.o, "ttft", kvc)
    run.add("private_bytes", arm, figure_of(r, "private_bytes"))


# -------------------------------------------------------------- llama.cpp

class Server:
    """A llama-server with one slot; the clock runs from its start."""

    def __init__(self, o, n_ctx, kv, fa, slots):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.start = time.monotonic()
        self.p = subprocess.Popen(
            [os.path.join(o.llama_bin, "llama-server"), "-m", o.model, "-t",
             str(o.threads), "-tb", str(o.threads), "-c", str(n_ctx), "-np",
             "1", "-ctk", kv, "-ctv", kv, "-fa", fa, "--port",
             str(self.port), "--host", "127.0.0.1", "--slot-save-path",
             slots, "--no-warmup", "--no-ui", "--cache-ram", "0"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=llama_env(o))

    def __enter__(self):
        while True:
            try:
                if self.request("GET", "/health")[0] == 200:
                    return self
            except OSError:
                pass
            if self.p.poll() is not None:
                raise Void(f"llama-server: status {self.p.returncode}")
            if time.monotonic() - self.start > 120:
                self.p.kill()
                raise Void("llama-server does not come up")
            time.sleep(0.002)

    def __exit__(self, *exc):
        self.p.terminate()
        self.p.wait()

    def request(self, method, path, body=None):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        c.request(method, path, json.dumps(body) if body else None,
                  {"Content-Type": "application/json"})
        r = c.getresponse()
        return r.status, r.read()

    def ask(self, ids, n, cached):
        status, body = self.request("POST", "/completion", {
            "prompt": ids, "n_predict": n, "temperature": 0, "top_k": 1,
            "ignore_eos": True, "cache_prompt": cached, "id_slot": 0})
        if status != 200:
            raise Void(f"/completion: {status}: {body[:200]}")
        return json.loads(body)

    def slot(self, action):
        status, body = self.request("POST", f"/slots/0?action={action}",
                                    {"filename": "kb.bin"})
        if status != 200:
            raise Void(f"slot {action}: {status}: {body[:200]}")
        return json.loads(body)

    def first(self, ids, n):
        """Seconds since the process began, when text first came; and what
        the last event says."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        c.request("POST", "/completion", json.dumps({
            "prompt": ids, "n_predict": n, "temperature": 0, "top_k": 1,
            "ignore_eos": True, "cache_prompt": True, "id_slot": 0,
            "stream": True}), {"Content-Type": "application/json"})
        r, s, last = c.getresponse(), None, {}
        for line in r:
            if line.startswith(b"data:"):
                last = json.loads(line[5:])
                if s is None and last.get("content"):
                    s = time.monotonic() - self.start
        if s is None:
            raise Void("no text came")
        return s, last


def llama_env(o):
    return dict(os.environ, LD_LIBRARY_PATH=o.llama_bin,
                **({"OMP_WAIT_POLICY": "passive"} if o.llama_passive else {}))


def evaluated(reply, want, what):
    n = reply["timings"]["prompt_n"]
    if n != want:
        raise Void(f"{what}: {n} prompt tokens evaluated, expected {want}: "
                   "the cache missed")


def decoded(reply):
    return reply["timings"]["predicted_per_second"]


def llama_figures(run, arm, kv, fa, prefix, question, work):
    o = run.o
    n_ctx = len(prefix) + len(question) + o.gen + 64
    # the last token of a saved slot is computed again when asked for alone,
    # never when a question follows it
    with Server(o, n_ctx, kv, fa, work) as s:
        run.add("decode_0", arm, max(
            decoded(s.ask(question, o.gen, False)) for _ in range(o.bursts)))
        r = s.ask(prefix, 0, False)
        evaluated(r, len(prefix), "prefill")
        run.add("build", arm, r["timings"]["prompt_per_second"])
        saved = s.slot("save")
        if saved["n_saved"] < len(prefix):
            raise Void(f"slot save kept {saved['n_saved']} tokens")
        run.add("kv_bytes_per_token", arm,
                saved["n_written"] / saved["n_saved"])
        r = s.ask(prefix + question, o.gen, True)
        evaluated(r, len(question), "decode")
        best = decoded(r)
        for _ in range(o.bursts - 1):       # all but the last token is there
            r = s.ask(prefix + question, o.gen, True)
            evaluated(r, 1, "decode")
            best = max(best, decoded(r))
        run.add("decode_full", arm, best)
    for _ in range(o.starts):
        with Server(o, n_ctx, kv, fa, work) as s:
            s.slot("restore")
            t, last = s.first(prefix + question, o.gen)
            evaluated(last, len(question), "start")
            run.add("start_to_first_token", arm, t)
            with open(f"/proc/{s.p.pid}/smaps_rollup",
                      encoding="ascii") as f:
                anon = [x for x in f if x.startswith("Anonymous:")]
            run.add("private_bytes", arm, int(anon[0].split()[1]) * 1024)


def llama_batch(run, arm, kv, fa, prefix):
    o = run.o
    n = max(o.batch)
    out = command([os.path.join(o.llama_bin, "llama-batched-bench"), "-m",
                   o.model, "-t", str(o.threads), "-tb", str(o.threads),
                   "-c", str(len(prefix) + n * o.gen + 64), "-npp",
                   str(len(prefix)), "-ntg", str(o.gen), "-npl",
                   ",".join(map(str, o.batch)), "-pps", "-kvu", "-ctk", kv,
                   "-ctv", kv, "-fa", fa, "--output-format", "jsonl"],
                  env=llama_env(o), timeout=600)
    for line in out.splitlines():
        if line.startswith("{"):
            r = json.loads(line)
            run.add(f"batch_{r['pl']}", arm, r["speed_tg"])


# ------------------------------------------- OpenVINO and transformers

def script_figures(run, arm, argv):
    """Of a script that measures itself, and that is asked from its start."""
    r = json.loads(command(argv + ["build"]).splitlines()[-1])
    for name, value in r.items():
        run.add(name, arm, value)
    run.add("start_to_first_token", arm, first_byte(argv + ["ask"]))


def write_ids(work, prefix, question):
    path = os.path.join(work, "ids.json")
    with open(path, "w", encoding="ascii") as f:
        json.dump({"prefix": prefix, "question": question}, f)
    return path


def transformers_figures(run, arm, dtype, ids, work):
    o = run.o
    script_figures(run, arm, [
        o.transformers_python, os.path.join(HERE, "transformers_peer.py"),
        o.model, ids, os.path.join(work, "cache.pt"), str(o.threads),
        str(o.gen), dtype])


def openvino_figures(run, arm, precision, ids):
    o = run.o
    script_figures(run, arm, [
        o.openvino_python, os.path.join(HERE, "openvino_peer.py"), o.model,
        ids, str(o.threads), str(o.gen), precision])


# ------------------------------------------------------------------ output

def summary(run):
    rows = []
    for (figure, arm), v in run.values.items():
        unit, more = FIGURES.get(figure, ("tokens/s", True))
        rows.append({"figure": figure, "arm": arm, "unit": unit,
                     "better": "higher" if more else "lower", "n": len(v),
                     "best": max(v) if more else min(v),
                     "median": statistics.median(v), "values": v})
    return rows


def ratios(rows):
    """cag against each peer's best arm: above 1 is in cag's favour."""
    out = []
    figures = dict.fromkeys(r["figure"] for r in rows)
    for figure in figures:
        of = [r for r in rows if r["figure"] == figure]
        ours = [r for r in of if r["arm"].startswith("cag")]
        for peer in ("llama.cpp", "openvino", "transformers"):
            theirs = [r for r in of if r["arm"].startswith(peer)]
            if not theirs:
                continue
            for a in ours:
                more = a["better"] == "higher"
                pick = max if more else min
                ratio = {}
                for k in ("best", "median"):
                    t = pick(r[k] for r in theirs)
                    ratio[k] = a[k] / t if more else t / a[k]
                out.append({"figure": figure, "arm": a["arm"], "peer": peer,
                            "peer_arm": pick(theirs,
                                             key=lambda r: r["best"])["arm"],
                            "ratio_best": ratio["best"],
                            "ratio_median": ratio["median"]})
    return out


def sha256(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def number(v, unit):
    return f"{v:.0f}" if unit == "bytes" else f"{v:.4g}"


def table(rows, rat):
    lines = ["| figure | arm | best | median | unit | n |",
             "|---|---|--:|--:|---|--:|"]
    for r in sorted(rows, key=lambda r: (r["figure"], r["arm"])):
        lines.append(f"| {r['figure']} | {r['arm']} | "
                     f"{number(r['best'], r['unit'])} | "
                     f"{number(r['median'], r['unit'])} | {r['unit']} | "
                     f"{r['n']} |")
    lines += ["", "| figure | cag | against | ratio of bests | of medians |",
              "|---|---|---|--:|--:|"]
    for r in rat:
        lines.append(f"| {r['figure']} | {r['arm']} | {r['peer_arm']} | "
                     f"{r['ratio_best']:.2f} | {r['ratio_median']:.2f} |")
    return "\n".join(lines)


def document(run):
    """A report that cag-bench show reads, and the peers beside it."""
    rows = summary(run)
    return dict(run.report, peers={
        "settings": run.about, "load_average": run.load, "figures": rows,
        "ratios": ratios(rows), "void": run.void})


def options():
    env = os.environ.get
    p = argparse.ArgumentParser(
        description="cag beside llama.cpp, OpenVINO and transformers")
    p.add_argument("--model", required=True, help="GGUF file, for all")
    p.add_argument("--text", required=True, action="append",
                   help="the knowledge; may be repeated")
    p.add_argument("--cag-bin", default=env("CAG_BIN", "build/release"))
    p.add_argument("--llama-bin", default=env("LLAMA_BIN"))
    p.add_argument("--llama-note", default="",
                   help="how it was built, for the record")
    p.add_argument("--llama-passive", action="store_true",
                   help="its threads sleep while they wait: kinder to it on a "
                        "machine with other work")
    p.add_argument("--llama-arms", default="f16:on,f16:off,q8_0:on",
                   help="KV type : flash attention, ...")
    p.add_argument("--openvino-python", default=env("OPENVINO_PYTHON"))
    p.add_argument("--openvino-arms", default="default,f32,f32-exact",
                   help="precisions; on a CPU without bf16 the first two are "
                        "the same")
    p.add_argument("--transformers-python",
                   default=env("TRANSFORMERS_PYTHON"))
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--starts", type=int, default=3,
                   help="process starts a round")
    p.add_argument("--bursts", type=int, default=5,
                   help="runs of decoding a round, of which the fastest counts")
    p.add_argument("--gen", type=int, default=32)
    p.add_argument("--batch", default="16",
                   help="questions at once: N,N...; '' for none")
    p.add_argument("--full", action="store_true",
                   help="end with a whole cag-bench run")
    p.add_argument("--json", help="write the results there, as a report that "
                   "cag-bench show reads too")
    o = p.parse_args()
    o.batch = [int(x) for x in o.batch.split(",") if x]
    o.model = os.path.abspath(o.model)
    return o


def one_round(run, kvc, prefix, question, work):
    o = run.o
    run.load.append(os.getloadavg()[0])
    run.try_arm("cag f16", cag_build, kvc["f16"], "default")
    run.try_arm("cag f16 fast", cag_build, kvc["f16"], "fast")
    run.try_arm("cag f16 fast8", cag_build, kvc["f16"], "fast8")
    # reading beside reading: a machine changes its speed within minutes
    ids = write_ids(work, prefix, question)
    if o.openvino_python:
        for precision in o.openvino_arms.split(","):
            run.try_arm("openvino " + precision, openvino_figures, precision,
                        ids)
    for codec in CODECS:
        run.try_arm("cag " + codec, cag_figures, kvc[codec])
        run.try_arm("cag " + codec, cag_first, kvc[codec])
    if o.llama_bin:
        for spec in o.llama_arms.split(","):
            kv, fa = spec.split(":")
            run.try_arm(f"llama.cpp {kv} fa={fa}", llama_figures, kv, fa,
                        prefix, question, work)
        if o.batch:
            run.try_arm("llama.cpp f16 fa=on", llama_batch, "f16", "on",
                        prefix)
    if o.transformers_python:
        for dtype in ("float32", "bfloat16"):
            run.try_arm("transformers " + dtype, transformers_figures, dtype,
                        ids, work)


def about(o, prefix, question):
    return {"date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "text": {os.path.basename(t): sha256(t) for t in o.text},
            "threads": o.threads, "rounds": o.rounds, "starts": o.starts,
            "bursts": o.bursts, "generated": o.gen, "prefix_tokens": len(prefix),
            "question_tokens": len(question), "llama": o.llama_note,
            "llama_passive_wait": o.llama_passive}


def main():
    o = options()
    run = Run(o)
    with tempfile.TemporaryDirectory(prefix="cag-peers-") as work:
        kvc, prefix, question = cag_prepare(o, work)
        run.about = about(o, prefix, question)
        run.report = cag_report(o, "load", kvc["f16z"])
        for i in range(o.rounds):
            print(f"round {i + 1} of {o.rounds}", file=sys.stderr)
            one_round(run, kvc, prefix, question, work)
        for codec in CODECS:
            run.try_arm("cag " + codec, cag_memory, kvc[codec])
        if o.full:
            run.report = json.loads(command(
                [cag(o, "cag-bench"), "run", "-q", "-r", str(o.rounds), "-t",
                 str(o.threads), "-n", str(o.gen), "-o", "json",
                 kvc["f16z"]]))
            run.save()
    facts, doc = run.report["facts"], document(run)["peers"]
    print(f"{facts['cpu']}, {o.threads} threads, {facts['model']} "
          f"{facts['model_type']}, {len(prefix)} tokens of prefix, load "
          f"average {min(run.load):.1f} to {max(run.load):.1f}\n")
    print(table(doc["figures"], doc["ratios"]))
    for v in run.void:
        print("\nvoid: " + v)


if __name__ == "__main__":
    main()
