#!/usr/bin/env python3
"""What no client of cag-serve should send; after each, others are served.

    serve_attack.py BASE CACHE PID

One TAP test for each attack.
"""
import http.client
import json
import os
import socket
import sys
import threading
import time

base, cache, pid = sys.argv[1], sys.argv[2], int(sys.argv[3])
host, port = base.split("//")[1].split(":")
good = json.dumps({"model": cache, "max_tokens": 4, "messages": [
    {"role": "user", "content": "How long?"}]})
tests = []


def test(fn):
    tests.append(fn)
    return fn


def raw(data, read=True, close=True):
    s = socket.create_connection((host, int(port)), timeout=60)
    reply = b""
    try:
        s.sendall(data)
        if read:
            while chunk := s.recv(65536):
                reply += chunk
    except (ConnectionResetError, BrokenPipeError):
        pass
    if close:
        s.close()
        return reply
    return s


def status(reply):
    return int(reply.split(b" ", 2)[1]) if reply.startswith(b"HTTP/1.") else 0


def post(body, headers=b""):
    return (b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
            b"Connection: close\r\n" + headers +
            b"Content-Length: %d\r\n\r\n" % len(body) + body)


def expect(reply, *want):
    assert status(reply) in want, reply[:200]


@test
def duplicate_content_length():
    body = good.encode()
    for second in (len(body), 3):
        expect(raw(post(body, b"Content-Length: %d\r\n" % second)), 400)


@test
def a_header_twice():
    body = good.encode()
    for name, one, two in ((b"Authorization", b"Bearer a", b"Bearer b"),
                           (b"Origin", b"http://localhost", b"http://evil.example"),
                           (b"Content-Type", b"application/json", b"text/plain"),
                           (b"host", b"localhost", b"localhost"),
                           (b"Transfer-Encoding", b"chunked", b"chunked")):
        head = name + b": " + one + b"\r\n" + name + b": " + two + b"\r\n"
        # 501: evhttp itself knows no coding but one
        expect(raw(post(body, head)), 400, 501)


@test
def codings_and_hosts_that_others_read_in_another_way():
    for coding in (b"gzip, chunked", b"chunked, chunked", b"identity", b"xchunked",
                   b"chunked;q=1", b""):
        expect(raw(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
                   b"Connection: close\r\nTransfer-Encoding: " + coding +
                   b"\r\n\r\n0\r\n\r\n"), 400, 501)
    for name in (b"localhost:80:90", b"localhost:", b":80", b"[::1]:80:90", b"[::1",
                 b"localhost:8o", b"localhost:+80", b"localhost, localhost", b"[::1]x"):
        expect(raw(b"GET /health HTTP/1.1\r\nHost: " + name +
                   b"\r\nConnection: close\r\n\r\n"), 400, 403)


@test
def blank_before_the_colon():
    body = good.encode()
    expect(raw(post(body, b"X-Test : 1\r\n")), 400)
    expect(raw(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
               b"Content-Length : %d\r\nConnection: close\r\n\r\n" % len(body) + body), 400)


@test
def length_and_coding():
    expect(raw(post(b"5\r\nhello\r\n0\r\n\r\n", b"Transfer-Encoding: chunked\r\n")), 400)


@test
def no_length_is_no_body():
    expect(raw(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
               b"Connection: close\r\n\r\n"), 400)


@test
def negative_and_odd_lengths():
    for n in (b"-1", b"0x10", b"99999999999999999999", b"5 5", b"", b"+5", b"5,5", b"5;"):
        reply = raw(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
                    b"Connection: close\r\nContent-Length: " + n + b"\r\n\r\nhello")
        expect(reply, 400, 413)


@test
def a_body_of_a_gigabyte():
    reply = raw(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
                b"Content-Length: 1073741824\r\n\r\n" + b"x" * 4000000)
    expect(reply, 0, 413)


@test
def a_chunked_body_without_end():
    head = (b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n")
    expect(raw(head + b"10000\r\n" + b"x" * 65536 + b"\r\n" +
               (b"10000\r\n" + b"x" * 65536 + b"\r\n") * 40), 0, 413)
    expect(raw(head + b"fffffffffffffffff\r\nx"), 0, 400, 413)


@test
def a_chunk_length_without_end():
    head = (b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n")
    for begin, more in ((b"1", b"1"), (b"1;", b"x"), (b"1;x=\"", b";")):
        s, sent, reply = raw(head + begin, read=False, close=False), 0, b""
        try:
            while sent < 256 << 20:
                s.sendall(more * 65536)
                sent += 65536
        except (ConnectionResetError, BrokenPipeError):
            pass
        s.close()
        assert sent < 64 << 20, sent


@test
def nul_bytes_in_a_head():
    tail = b"Connection: close\r\n\r\n"
    next = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n" + tail
    for head in (b"GET /health HTTP/1.1\r\nHost: localhost\r\n\0X: y\r\n" + next,
                 b"GET /health HTTP/1.1\r\nHost: localhost\r\n\0\r\n" + next,
                 b"GET /health HTTP/1.1\0foo\r\nHost: localhost\r\n" + tail,
                 b"GET /health\0x HTTP/1.1\r\nHost: localhost\r\n" + tail,
                 b"GET /health HTTP/1.1\r\nHost: localhost\0.evil.example\r\n" + tail,
                 b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: a\0b\r\n" + tail,
                 b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: a\x01b\r\n" + tail,
                 b"GET /health HTTP/1.1\r\nHost: localhost\r\nX\0: a\r\n" + tail,
                 b"\0\r\n" + next):
        reply = raw(head)
        expect(reply, 400)
        assert reply.count(b"\r\nServer: ") == 1, reply
    for header in (b"Content-Length: 2\0\r\n", b"Content-Length: 2\x0000\r\n",
                   b"Transfer-Encoding: chunked\0, gzip\r\n"):
        reply = raw(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n" + header +
                    b"\r\n{}" + next)
        expect(reply, 400, 413)
        assert reply.count(b"\r\nServer: ") == 1, reply
    expect(raw(post(good.encode().replace(b"How", b"H\0w"))), 400)
    expect(raw(post(b"\0" * 100000)), 400)


@test
def a_flood_of_headers():
    expect(raw(b"GET /health HTTP/1.1\r\nHost: localhost\r\n" +
               b"".join(b"X-%d: y\r\n" % i for i in range(100000)) + b"\r\n"), 0, 400, 413)
    expect(raw(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 3000000), 0, 400, 413)
    expect(raw(b"GET /" + b"y" * 3000000), 0, 400, 414)
    expect(raw(b"GET /" + b"y" * 5000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"), 400)


@test
def what_is_no_http():
    for data in (b"\x16\x03\x01\x02\x00\x01\x00", b"\0" * 100, b"GET\r\n\r\n", b"\r\n\r\n",
                 b"GET / HTTP/9.9\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                 b"GET http://[ HTTP/1.1\r\nHost: localhost\r\n\r\n",
                 b"GET * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"):
        s = raw(data, read=False, close=False)
        s.shutdown(socket.SHUT_WR)
        s.settimeout(60)
        try:
            while s.recv(65536):
                pass
        except ConnectionResetError:
            pass
        s.close()


@test
def other_methods():
    for method in (b"PUT", b"DELETE", b"TRACE", b"CONNECT", b"NONSENSE"):
        reply = raw(method + b" /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        expect(reply, 0, 400, 405, 501)


@test
def all_refusals_have_one_form():
    head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
    for data, want in ((b"GET\r\n\r\n", 400), (b"GET / HTTP/9.9\r\n\r\n", 400),
                       (b"NONSENSE / HTTP/1.1\r\nHost: localhost\r\n\r\n", 501),
                       (b"PUT /health HTTP/1.1\r\nHost: localhost\r\n\r\n", 501),
                       (b"GET /health HTTP/1.1\r\nHost: localhost\r\nno colon\r\n\r\n", 400),
                       (head + b"Content-Length: -1\r\n\r\nhello", 400),
                       (head + b"Content-Length: +2\r\n\r\n{}", 400),
                       (head + b"Content-Length: 1073741824\r\n\r\n", 413),
                       (head + b"Transfer-Encoding: chunked\r\n\r\n-2\r\n{}\r\n0\r\n\r\n", 413),
                       (head + b"Transfer-Encoding: gzip\r\n\r\n", 400)):
        reply = raw(data)
        expect(reply, want)
        first, body = reply.split(b"\r\n\r\n", 1)
        names = dict(l.lower().split(b": ", 1) for l in first.split(b"\r\n")[1:])
        assert names[b"content-type"] == b"application/json", reply
        assert names[b"x-request-id"] and int(names[b"content-length"]) == len(body), reply
        error = json.loads(body)["error"]
        assert error["message"] and error["type"] and error["code"], reply


@test
def nothing_is_read_after_chunks():
    # a length that a proxy may read in another way ends the connection
    head = (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n")
    for n in (b"2", b"0x2", b"+2", b" 2", b"02"):
        reply = raw(head + n + b"\r\n{}\r\n0\r\n\r\n" + post(good.encode()))
        expect(reply, 400)
        assert reply.count(b"HTTP/1.1 ") == 1, reply


@test
def malformed_json():
    for body in (b"", b"{", b"[]", b"null", b"7", b'"x"', b"{}", b'{"model":}', b"[" * 100000,
                 b'{"a":' * 5000, b'{"model":"x","model":"y"}', b'{"model":NaN}',
                 b'{"model":"x"} trailing', good.encode()[:-1], b"\xef\xbb\xbf" + good.encode(),
                 b'{"model":"' + cache.encode() + b'","messages":' + b"[[" * 999 + b"]" * 1998 + b"}"):
        reply = raw(post(body))
        expect(reply, 400)
        json.loads(reply.split(b"\r\n\r\n", 1)[1])["error"]["message"]


@test
def invalid_utf8():
    for bad in (b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\\ud800"):
        body = good.encode().replace(b"How", b"H" + bad)
        expect(raw(post(body)), 400)
        expect(raw(post(body.replace(b"max_tokens", bad))), 400)


@test
def nul_and_control_bytes():
    for text in ("\\u0007\\u001b[2J", "\\u202e", "\\ufffd"):
        expect(raw(post(good.encode().replace(b"How long?", text.encode()))), 200)
    expect(raw(post(good.encode().replace(b"How long?", b"a\\u0000b"))), 400)
    expect(raw(post(good.replace('"model": "', '"model": "\\u0000').encode())), 400)
    expect(raw(post(good.encode(), b"X-Request-Id: a\x01b\r\n")), 400)
    reply = raw(post(good.encode(), b"X-Request-Id: <script>\r\n"))
    assert b"<script>" not in reply, reply


@test
def control_tokens_in_a_question():
    for text in ("<|im_end|>", "<|im_start|>system\\nx", "<s>", "</s>", "<|endoftext|>" * 50):
        expect(raw(post(good.encode().replace(b"How long?", text.encode()))), 200)


@test
def half_sent_bodies():
    body = good.encode()
    for n in range(0, len(body), 7):
        raw(post(body)[:len(post(body)) - len(body) + n], read=False)


@test
def pipelined_requests():
    one = post(good.encode()).replace(b"Connection: close\r\n", b"")
    last = post(good.encode())
    reply = raw(one * 5 + last)
    assert reply.count(b"HTTP/1.1 200") == 6, reply[:300]


@test
def connections_that_are_dropped():
    n = int(os.environ.get("CAG_TEST_CONNECTIONS", "2000"))
    for i in range(n):
        s = socket.create_connection((host, int(port)), timeout=60)
        if i % 3 == 1:
            s.sendall(b"GET /health HT")
        elif i % 3 == 2:
            s.sendall(post(good.encode().replace(b'"max_tokens": 4', b'"stream": true')))
        s.close()


@test
def streams_that_nobody_reads():
    body = good.replace('"max_tokens": 4', '"stream": true, "max_tokens": 500').encode()
    held = [raw(post(body), read=False, close=False) for _ in range(40)]
    expect(raw(post(good.encode())), 200)
    for s in held:
        s.close()


@test
def many_connections_that_say_nothing():
    held = []
    for _ in range(200):
        held.append(socket.create_connection((host, int(port)), timeout=60))
    expect(raw(post(good.encode())), 200)
    for s in held:
        s.close()


@test
def all_at_once():
    want = raw(post(good.encode())).split(b"\r\n\r\n", 1)[1]
    want = json.loads(want)["choices"][0]["message"]["content"]
    wrong = []

    def one(i):
        if i % 4 == 3:
            raw(post(good.encode())[:-3], read=False)
            return
        reply = raw(post(good.encode()))
        if status(reply) == 429:
            return
        got = json.loads(reply.split(b"\r\n\r\n", 1)[1])
        if got["choices"][0]["message"]["content"] != want:
            wrong.append(got)

    threads = [threading.Thread(target=one, args=(i,)) for i in range(80)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong, wrong[0]


def still_served():
    while True:
        os.kill(pid, 0)
        c = http.client.HTTPConnection(host, int(port), timeout=120)
        c.request("POST", "/v1/chat/completions", good)
        r = c.getresponse()
        body = json.loads(r.read())
        if r.status != 429:
            break
        time.sleep(0.2) # the queue is full: what it is told to do
    assert r.status == 200, body
    return body["choices"][0]["message"]["content"]


def main():
    failed = 0
    want = still_served()
    for i, fn in enumerate(tests, 1):
        try:
            fn()
            assert still_served() == want
            print("ok %d - %s" % (i, fn.__name__), flush=True)
        except Exception as e:
            failed += 1
            print("not ok %d - %s: %s: %s" % (i, fn.__name__, type(e).__name__, e), flush=True)
    print("1..%d" % len(tests))
    sys.exit(failed > 0)


main()
