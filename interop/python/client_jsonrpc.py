"""The package json-rpc (Debian: python3-jsonrpc) against the demo methods: client_jsonrpc.py [1.0] ADDRESS…

It makes and reads the messages of both versions and brings no carrier, so this stands on urllib and on sockets.
Addresses are http://, tcp:// and unix:; with 1.0 in front all of them speak JSON-RPC 1.0.
"""

import itertools
import json
import socket
import sys
import threading
import urllib.request

from jsonrpc.jsonrpc1 import JSONRPC10Request, JSONRPC10Response
from jsonrpc.jsonrpc2 import JSONRPC20BatchRequest, JSONRPC20Request, JSONRPC20Response

from checks import Refused, address, calls, check, finish, same

addresses = sys.argv[1:]
old = addresses[0] == "1.0"
if old:
    addresses = addresses[1:]
Request, Response = (JSONRPC10Request, JSONRPC10Response) if old else (JSONRPC20Request, JSONRPC20Response)
ids = itertools.count(1)


def read(text):
    """Turns the text of a response into an object of the package, which checks it."""
    data = json.loads(text)
    members = {"_id": data["id"]}
    for name in ("result", "error"):
        # Version 1.0 has both members, one of them null; the package wants the one that counts.
        if name in data and (not old or name == "result" or data["error"] is not None):
            members[name] = data[name]
    if old:
        assert "jsonrpc" not in data and "result" in data and "error" in data, text
        if data["error"] is not None:
            assert data["result"] is None, text
            del members["result"]
    else:
        same(data["jsonrpc"], "2.0")
        assert ("result" in data) != ("error" in data), text
    return Response(**members)


class Http:
    ordered = True

    def __init__(self, url):
        self.url = url

    def exchange(self, text):
        request = urllib.request.Request(self.url, text.encode(), {"Content-Type": "application/json", "Accept": "application/json"})
        with urllib.request.urlopen(request, timeout=10) as response:
            body = response.read().decode()
            if not body:
                same(response.status, 204)
                return None
            same(response.status, 200)
            return body

    def close(self):
        pass


class Lines:
    """One connection, a message in each line, calls told apart by their id."""

    ordered = True

    def __init__(self, target):
        if target.startswith("unix:"):
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.connect(target[len("unix:"):].split("?")[0])
        else:
            self.socket = socket.create_connection(address(target))
        self.lock = threading.Lock()
        self.waiting = {}
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        for line in self.socket.makefile("r", encoding="utf-8", newline="\n"):
            data = json.loads(line)
            key = "batch" if isinstance(data, list) else data["id"]
            event, out = self.waiting.pop(key)
            out.append(line)
            event.set()

    def exchange(self, text):
        data = json.loads(text)
        wait = isinstance(data, list) or data.get("id") is not None
        event, out = threading.Event(), []
        with self.lock:
            if wait:
                self.waiting["batch" if isinstance(data, list) else data["id"]] = (event, out)
            self.socket.sendall(text.encode() + b"\n")
        if not wait:
            return None
        assert event.wait(10), "no answer to " + text
        return out[0]

    def close(self):
        self.socket.close()


def run(target):
    carrier = Http(target) if target.startswith("http:") else Lines(target)
    label = target.split(":")[0] + (" 1.0" if old else "")

    def call(method, params):
        number = next(ids)
        request = Request(method=method, params=params, _id=number if number % 2 else "id-%d-ä🌍" % number)
        response = read(carrier.exchange(request.json))
        same(response._id, request._id)
        if response.error is not None:
            raise Refused(response.error)
        return response.result

    def notify(method, params):
        request = Request(method=method, params=params, _id=None, is_notification=True)
        same(carrier.exchange(request.json), None)

    calls(label, call, notify, named=not old, ordered=carrier.ordered)

    def batch():
        answers = json.loads(
            carrier.exchange(
                JSONRPC20BatchRequest(
                    JSONRPC20Request("sum", [1, 2, 4], _id="1"),
                    JSONRPC20Request("notify_hello", [7], is_notification=True),
                    JSONRPC20Request("subtract", {"minuend": 42, "subtrahend": 23}, _id=2),
                    JSONRPC20Request("fail", [7, "seven"], _id="c"),
                    JSONRPC20Request("no_such_method", [], _id=0),
                ).json
            )
        )
        same([read(json.dumps(a))._id for a in answers], ["1", 2, "c", 0])
        same([a["error"]["code"] if "error" in a else a["result"] for a in answers], [7, 19, 7, -32601])

    def escaped():
        # json.dumps writes everything outside ASCII as \u escapes, an emoji as a pair of them.
        text = json.dumps({"jsonrpc": "2.0", "id": "\U0001f30d", "method": "\u0065cho", "params": ["\U0001f30d"]})
        assert "\\ud83c\\udf0d" in text
        response = json.loads(carrier.exchange(text)) if isinstance(carrier, Http) else None
        if response is not None:
            same(response, {"jsonrpc": "2.0", "id": "\U0001f30d", "result": ["\U0001f30d"]})

    def bare():
        # 1.0 asks for all three members and says nothing of a fourth.
        text = carrier.exchange(json.dumps({"method": "add", "params": [5, 3], "id": "x"}))
        same(json.loads(text), {"result": 8, "error": None, "id": "x"})

    def modern():
        # Where 1.0 is switched on, a request that says 2.0 still gets an answer in 2.0.
        text = carrier.exchange(json.dumps({"jsonrpc": "2.0", "method": "add", "params": {"a": 5, "b": 3}, "id": "y"}))
        same(json.loads(text), {"jsonrpc": "2.0", "result": 8, "id": "y"})

    if old:
        check(label + ": an answer has result and error and no version", bare)
        check(label + ": 2.0 among 1.0 is answered in 2.0", modern)
    else:
        check(label + ": a batch", batch)
        if isinstance(carrier, Http):
            check(label + ": escapes", escaped)
    carrier.close()


for each in addresses:
    run(each)
finish()
