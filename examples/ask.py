#!/usr/bin/env python3
"""Ask a cache from Python: libcag through ctypes, nothing else.

    ask.py handbook.kvc "How do I reset my badge?" "Who leads Project Atish?"

All questions are answered together (cag_kb_ask_many).  Structs of options
begin with their size, so only the members that are used are declared here:
what follows them has its default, in this library and in later ones.  Structs
that the library fills never change their size.
"""
import ctypes as c
import os
import sys


class Error(c.Structure):  # cag_error
    _fields_ = [("status", c.c_int), ("sys", c.c_int), ("offset", c.c_int64),
                ("line", c.c_int), ("column", c.c_int),
                ("file", c.c_char * 512), ("msg", c.c_char * 1024)]


class KbOpts(c.Structure):  # the begin of cag_kb_opts
    _fields_ = [("size", c.c_size_t), ("model", c.c_char_p)]


class AskParams(c.Structure):  # the begin of cag_ask_params
    _fields_ = [("size", c.c_size_t), ("max_tok", c.c_int64),
                ("temperature", c.c_float), ("top_k", c.c_int),
                ("top_p", c.c_float), ("min_p", c.c_float),
                ("seed", c.c_uint64), ("row", c.c_uint64)]


class Question(c.Structure):  # cag_question
    _fields_ = [("text", c.c_char_p), ("size", c.c_size_t),
                ("params", c.POINTER(AskParams)), ("reserved", c.c_void_p * 2)]


class Answer(c.Structure):  # cag_answer
    _fields_ = [("text", c.c_void_p), ("size", c.c_size_t),
                ("reasoning", c.c_void_p), ("refused", c.c_bool),
                ("finish", c.c_char_p), ("n_cached", c.c_int64),
                ("n_prompt", c.c_int64), ("n_generated", c.c_int64),
                ("rest", c.c_uint64 * 13)]


lib = c.CDLL(os.environ.get("LIBCAG", "libcag.so.0"))
lib.cag_version.restype = c.c_char_p
lib.cag_status_name.restype = c.c_char_p
lib.cag_kb_opts_init_size.argtypes = [c.POINTER(KbOpts), c.c_size_t]
lib.cag_ask_params_init_size.argtypes = [c.POINTER(AskParams), c.c_size_t]
lib.cag_kb_open.argtypes = [c.c_char_p, c.POINTER(KbOpts),
                            c.POINTER(c.c_void_p), c.POINTER(Error)]
lib.cag_kb_ask_many.argtypes = [c.c_void_p, c.POINTER(Question), c.c_int,
                                c.c_int, c.POINTER(Answer), c.POINTER(Error),
                                c.POINTER(Error)]
lib.cag_answer_release.argtypes = [c.POINTER(Answer)]
lib.cag_kb_close.argtypes = [c.c_void_p]


class CagError(Exception):
    """What a call of the library failed with."""

    def __init__(self, err):
        name = lib.cag_status_name(err.status).decode()
        where = err.file.decode(errors="replace")
        text = err.msg.decode(errors="replace")
        super().__init__(f"{where + ': ' if where else ''}{text} ({name})")


class Kb:
    """An open cache.  One thread at a time; close it, or use `with'."""

    def __init__(self, path, model=None):
        opts, err, self.kb = KbOpts(), Error(), c.c_void_p()
        lib.cag_kb_opts_init_size(opts, c.sizeof(opts))
        opts.model = model.encode() if model else None
        if lib.cag_kb_open(path.encode(), opts, self.kb, err):
            raise CagError(err)

    def ask(self, questions, max_tok=120, temperature=0.0, seed=0):
        """A list of strings, or of CagError where a question has no answer."""
        n = len(questions)
        params, err = AskParams(), Error()
        lib.cag_ask_params_init_size(params, c.sizeof(params))
        params.max_tok, params.seed = max_tok, seed
        params.temperature = temperature
        q, a, e = (Question * n)(), (Answer * n)(), (Error * n)()
        for i, text in enumerate(questions):
            q[i].text = text.encode()
            q[i].size = len(text.encode())
            q[i].params = c.pointer(params)
        failed = lib.cag_kb_ask_many(self.kb, q, n, 0, a, e, err)
        out = [CagError(e[i]) if e[i].status else
               c.string_at(a[i].text, a[i].size).decode() if a[i].text else None
               for i in range(n)]
        for i in range(n):
            lib.cag_answer_release(a[i])
        if failed:
            raise CagError(err)
        return out

    def close(self):
        lib.cag_kb_close(self.kb)
        self.kb = c.c_void_p()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def main():
    if len(sys.argv) < 3:
        sys.exit("usage: ask.py FILE.kvc QUESTION...")
    bad = False
    try:
        with Kb(sys.argv[1], os.environ.get("CAG_MODEL")) as kb:
            for answer in kb.ask(sys.argv[2:], max_tok=60):
                if isinstance(answer, CagError):
                    print(f"ask.py: {answer}", file=sys.stderr)
                    bad = True
                else:
                    print(answer.replace("\n", " "))
    except CagError as err:
        print(f"ask.py: {err}", file=sys.stderr)
        bad = True
    sys.exit(bad)


if __name__ == "__main__":
    main()
