"""The demo methods, for servers made of other people's libraries."""

import time


class Refusal(Exception):
    def __init__(self, code, message, data=None):
        super().__init__(message)
        self.code, self.message, self.data = code, message, data


_log = []


def _numbers(*values):
    if not all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
        raise Refusal(-32602, "Invalid params")


def subtract(minuend, subtrahend):
    _numbers(minuend, subtrahend)
    return minuend - subtrahend


def add(a, b):
    _numbers(a, b)
    return a + b


def total(*values):
    _numbers(*values)
    return sum(values)


def get_data():
    return ["hello", 5]


def echo(*args, **kwargs):
    return kwargs or list(args)


def accept(*_args, **_kwargs):
    return None


def fail(code, message, data=None):
    raise Refusal(code, message, data)


def sleep(ms):
    _numbers(ms)
    time.sleep(ms / 1000)
    return ms


def log_event(*args):
    _log.append({"seq": len(_log) + 1, "event": list(args)})
    return len(_log)


def get_log():
    return _log


METHODS = {
    "subtract": subtract,
    "add": add,
    "sum": total,
    "get_data": get_data,
    "echo": echo,
    "update": accept,
    "notify_hello": accept,
    "notify_sum": accept,
    "fail": fail,
    "sleep": sleep,
    "log_event": log_event,
    "get_log": get_log,
}
