#!/usr/bin/env python3
"""Run a command on a pseudo terminal and talk to it.

    on_tty.py COMMAND... <SCRIPT

SCRIPT has a step on each line:

    wait TEXT     until TEXT has come since the last wait (30 s at most)
    send TEXT     type TEXT and Return
    type TEXT     type TEXT alone; \\x03 is Ctrl-C, \\x04 is Ctrl-D
    pause SECONDS
    stop SECONDS  the command stands still so long
    leave         type Ctrl-D until the command has ended

At the end of SCRIPT it waits for the command.  Everything the terminal showed
goes to stdout, then a line "sane" if the terminal still echoes and works by
lines.  The status is the command's, 128 + n after signal n, 99 after a wait
that failed.
"""
import os
import pty
import select
import signal
import sys
import termios
import time

LIMIT = 30


def step(pid, fd, line, seen):
    word, _, text = line.rstrip("\n").partition(" ")
    if word == "pause":
        drain(fd, seen, float(text), None)
        return True
    if word == "stop":
        os.kill(pid, signal.SIGSTOP)
        time.sleep(float(text))
        os.kill(pid, signal.SIGCONT)
        return True
    if word == "wait":
        want = text.encode()
        if not drain(fd, seen, LIMIT, want):
            sys.stderr.write("on_tty.py: waited in vain for %r\n" % text)
            return False
        return True
    if word == "leave":
        # a Ctrl-D typed while the terminal changes its mode is lost
        while drain(fd, seen, 0.5, None):
            try:
                os.write(fd, b"\x04")
            except OSError:
                break
        return True
    data = text.encode().decode("unicode_escape").encode("latin-1")
    if word == "send":
        data = text.encode() + b"\n"
    elif word != "type":
        sys.exit("on_tty.py: unknown step " + word)
    os.write(fd, data)
    return True


def drain(fd, seen, seconds, want):
    """Read until want has come; all read text is consumed up to it."""
    end = time.time() + seconds
    while True:
        if want is not None:
            at = seen["new"].find(want)
            if at >= 0:
                seen["new"] = seen["new"][at + len(want):]
                return True
        left = end - time.time()
        if left <= 0 or not select.select([fd], [], [], left)[0]:
            return want is None
        try:
            data = os.read(fd, 65536)
        except OSError:
            data = b""
        if not data:
            return False
        seen["new"] += data
        seen["all"] += data


def main():
    steps = sys.stdin.readlines()
    pid, fd = pty.fork()
    if pid == 0:
        os.execvp(sys.argv[1], sys.argv[1:])
    seen = {"new": b"", "all": b""}
    good = all(step(pid, fd, line, seen) for line in steps)
    end = time.time() + LIMIT
    status = None
    while status is None and time.time() < end:
        drain(fd, seen, 0.05, None)
        done, raw = os.waitpid(pid, os.WNOHANG)
        if done:
            status = raw
    if status is None:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        good = False
    drain(fd, seen, 0.05, None)
    sys.stdout.buffer.write(seen["all"])
    lflag = termios.tcgetattr(fd)[3]
    if lflag & termios.ECHO and lflag & termios.ICANON:
        print("\nsane")
    sys.stdout.flush()
    if not good:
        return 99
    if os.WIFSIGNALED(status):
        return 128 + os.WTERMSIG(status)
    return os.WEXITSTATUS(status)


if __name__ == "__main__":
    sys.exit(main())
