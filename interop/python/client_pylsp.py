"""The package pylsp_jsonrpc (Debian: python3-pylsp-jsonrpc) against the demo methods, with Content-Length framing:

client_pylsp.py ADDRESS           on a TCP socket
client_pylsp.py -- CMD ARG…       on the stdio of a child

Its ids are UUIDs, and it is an endpoint that can be asked back.
"""

import concurrent.futures
import logging
import socket
import subprocess
import sys
import threading
import time

from pylsp_jsonrpc.endpoint import Endpoint
from pylsp_jsonrpc.exceptions import JsonRpcException
from pylsp_jsonrpc.streams import JsonRpcStreamReader, JsonRpcStreamWriter

from checks import UNICODE, Refused, address, calls, check, finish, refusal, same

logging.disable(logging.CRITICAL)

child = None
if sys.argv[1] == "--":
    child = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    reader, writer = JsonRpcStreamReader(child.stdout), JsonRpcStreamWriter(child.stdin)
    label = "stdio"
else:
    connection = socket.create_connection(address(sys.argv[1]))
    reader, writer = JsonRpcStreamReader(connection.makefile("rb")), JsonRpcStreamWriter(connection.makefile("wb"))
    label = "tcp"

ticks = []


def answer(params):
    if params["question"] == "fail":
        raise JsonRpcException("no comment", 77)
    return {"heard": params["question"], "unicode": UNICODE}


endpoint = Endpoint({"answer": answer, "countdown/tick": lambda params: ticks.append(params["left"])}, writer.write, max_workers=64)
answers = {}  # what came for each id, errors included


def consume(message):
    if "method" not in message:
        answers[message["id"]] = message
    try:
        endpoint.consume(message)
    except concurrent.futures.InvalidStateError:
        pass  # the package sets the result of a future that it has cancelled


threading.Thread(target=reader.listen, args=(consume,), daemon=True).start()


def call(method, params):
    try:
        return endpoint.request(method, params).result(10)
    except JsonRpcException as err:
        error = {"code": err.code, "message": err.message}
        if err.data is not None:
            error["data"] = err.data
        raise Refused(error)


calls(label, call, endpoint.notify)


def asked():
    questions = ["question %d 🌍" % i for i in range(50)]
    futures = [endpoint.request("ask", {"question": question}) for question in questions]
    same([future.result(10) for future in futures], [{"heard": question, "unicode": UNICODE} for question in questions])


def asked_in_vain():
    error = refusal(call, "ask", {"question": "fail"})
    same(error["code"], 1001)
    same(error["data"], {"code": 77, "message": "no comment"})


def counted():
    ticks.clear()
    same(call("countdown", {"from": 20, "interval_ms": 1}), "liftoff")
    same(ticks, list(range(20, 0, -1)))


def cancelled():
    sent = []
    endpoint._id_generator, before = (lambda: sent.append(before()) or sent[-1]), endpoint._id_generator
    start = time.monotonic()
    future = endpoint.request("sleep", {"ms": 60_000})
    assert future.cancel()
    endpoint._id_generator = before
    while sent[0] not in answers:
        assert time.monotonic() - start < 5, "no answer to what was cancelled"
        time.sleep(0.01)
    same(answers[sent[0]]["error"]["code"], -32800)
    same(call("add", [1, 2]), 3)


check(label + ": the server asks back, 50 at once", asked)
check(label + ": what is asked back may fail", asked_in_vain)
check(label + ": notifications come in order, all before the result", counted)
check(label + ": a cancelled call is answered -32800, at once", cancelled)
if child:

    def ended():
        writer.close()
        same(child.wait(9), 0)

    check("stdio: the child ends by itself when its stdin ends", ended)
finish()
