"""What every Python client asserts about a server of the demo methods.

One line per check goes to stdout, "ok NAME" or "FAIL NAME" with the reason behind it, and the Go test reads them.
"""

import concurrent.futures
import sys
import threading
import time
import traceback

UNICODE = ["Grüße", "世界 🌍🏽", "\u0000\u001f\"\\/", "\u2028\u2029", "e\u0301 \u202e", ""]
# 64 KiB in UTF-8, with a character of four bytes across every power of two.
BIG = "🌍" * (16 * 1024 - 1) + "abc"

_passed = 0
_failed = 0


class Refused(Exception):
    """The error of a response."""

    def __init__(self, error):
        super().__init__(str(error))
        self.error = error


def check(name, f):
    """Runs f, for at most ten seconds."""
    global _passed, _failed
    reason = []

    def run():
        try:
            f()
        except BaseException:  # an assertion too
            reason.append(traceback.format_exc())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(10)
    if thread.is_alive():
        reason.append("no answer within 10 s\n")
    if reason:
        _failed += 1
        print("FAIL " + name + "\n\t" + reason[0].rstrip().replace("\n", "\n\t"), flush=True)
    else:
        _passed += 1
        print("ok " + name, flush=True)


def finish():
    """Prints the count that the Go test waits for, and ends the process."""
    print("done %d passed %d failed" % (_passed, _failed), flush=True)
    sys.stdout.flush()
    import os

    os._exit(1 if _failed else 0)  # a thread that hangs has been reported already


def same(got, want):
    assert got == want and type(got) is type(want), "got %r, want %r" % (got, want)


def refusal(call, *args):
    """The error of a call that must fail."""
    try:
        result = call(*args)
    except Refused as refused:
        return refused.error
    raise AssertionError("answered %r, want an error" % (result,))


def calls(label, call, notify, named=True, ordered=True):
    """The checks that need nothing but question and answer. Without named (JSON-RPC 1.0) params are always lists."""

    def positional():
        same(call("subtract", [42, 23]), 19)
        same(call("subtract", [23, 42]), -19)
        same(call("sum", [1, 2, 3, 4]), 10)

    def by_name():
        same(call("subtract", {"subtrahend": 23, "minuend": 42}), 19)
        same(call("add", {"a": 5, "b": 3}), 8)

    def none():
        same(call("get_data", None if named else []), ["hello", 5])

    def unicode():
        same(call("echo", UNICODE), UNICODE)

    def big():
        same(call("echo", [BIG]), [BIG])

    def values():
        want = [0, -1, 1.5, 2**53 + 1, -(2**60), True, False, None, [], {}, [[{"a": [None]}]]]
        same(call("echo", want), want)

    def error_with_data():
        want = {"code": 1234, "message": "as asked 🌍", "data": {"why": [1, None, "x"]}}
        same(refusal(call, "fail", [want["code"], want["message"], want["data"]]), want)

    def error_without_data():
        want = {"code": -7, "message": "no more"}
        same(refusal(call, "fail", [want["code"], want["message"]]), want)

    def unknown():
        same(refusal(call, "no_such_method", [1])["code"], -32601)

    def wrong():
        same(refusal(call, "subtract", ["x", 1])["code"], -32602)
        same(refusal(call, "subtract", [1])["code"], -32602)

    def notification():
        mark = "seen by %s at %d" % (label, time.monotonic_ns())
        notify("log_event", [mark])
        while not any(entry["event"] == [mark] for entry in call("get_log", [])):
            assert not ordered, "not in the log: " + mark

    def at_once():
        order = []

        def one(ms):
            got = call("sleep", [ms])
            order.append(ms)
            return got

        asked = [(20 - i) * 15 for i in range(20)]
        with concurrent.futures.ThreadPoolExecutor(20) as pool:
            same(list(pool.map(one, asked)), asked)
        assert order != asked, "answers came in the order of the calls"

    check(label + ": positional params", positional)
    if named:
        check(label + ": named params", by_name)
    check(label + ": no params", none)
    check(label + ": unicode comes back as it went", unicode)
    check(label + ": 64 KiB come back as they went", big)
    check(label + ": values come back as they went", values)
    check(label + ": an error with data", error_with_data)
    check(label + ": an error without data", error_without_data)
    check(label + ": an unknown method", unknown)
    check(label + ": wrong params", wrong)
    check(label + ": a notification, then a call that sees it", notification)
    check(label + ": 20 calls at once, answered out of order", at_once)


def address(text):
    """Splits tcp://HOST:PORT?… into what socket wants to know."""
    host, port = text.split("://")[1].split("?")[0].split("/")[0].rsplit(":", 1)
    return host.strip("[]"), int(port)
