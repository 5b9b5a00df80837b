#!/usr/bin/env python3
"""A request to cag-serve, and a look at the reply.

    http_ask.py BASE STATUS METHOD PATH [BODY] [-H 'NAME: VALUE']...

BASE is http://HOST:PORT or unix:PATH; BODY a text, or @FILE.  The reply's body
goes to stdout; fails unless its status is STATUS.  With --stream the body is
the text that a stream of events adds up to, and its last `cag' object goes to
stderr.  With --head the reply's headers go to stderr.
"""
import http.client
import json
import socket
import sys


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost")
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


def connect(base):
    if base.startswith("unix:"):
        return UnixConnection(base[5:])
    return http.client.HTTPConnection(base.split("//")[1], timeout=120)


def request(base, method, path, body=None, headers=None):
    c = connect(base)
    if isinstance(body, str):
        body = body.encode()
    c.request(method, path, body, headers or {})
    return c.getresponse()


def events(reply):
    """The JSON of each event, to [DONE]."""
    for line in reply:
        if line.startswith(b"data: "):
            if line.strip() == b"data: [DONE]":
                return
            yield json.loads(line[6:])
    raise SystemExit("the stream has no end")


def text_of(event):
    text = ""
    for choice in event.get("choices", []):
        text += choice.get("text") or choice.get("delta", {}).get("content") or ""
    return text


def main():
    args, headers, stream, head = [], {}, False, False
    words = iter(sys.argv[1:])
    for w in words:
        if w == "-H":
            name, value = next(words).split(":", 1)
            headers[name] = value.strip()
        elif w == "--stream":
            stream = True
        elif w == "--head":
            head = True
        else:
            args.append(w)
    base, status, method, path = args[:4]
    body = args[4] if len(args) > 4 else None
    if body and body.startswith("@"):
        with open(body[1:], "rb") as f:
            body = f.read()
    reply = request(base, method, path, body, headers)
    if stream and reply.status == 200:
        for e in events(reply):
            if "error" in e:
                raise SystemExit(json.dumps(e))
            sys.stdout.write(text_of(e))
            if "cag" in e:
                print(json.dumps(e["cag"], ensure_ascii=False), file=sys.stderr)
            if e.get("usage"):
                print(json.dumps(e["usage"]), file=sys.stderr)
        sys.stdout.write("\n")
    else:
        sys.stdout.buffer.write(reply.read())
    if head:
        print(reply.headers, file=sys.stderr)
    if reply.status != int(status):
        raise SystemExit("status %d, expected %s" % (reply.status, status))


if __name__ == "__main__":
    main()
