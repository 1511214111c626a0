"""The package pylsp_jsonrpc as a server of the demo methods on its own stdio, with Content-Length framing.

It asks back (ask) and notifies (countdown). Methods that wait run on its pool, where a cancel finds them only before they start.
"""

import logging
import os
import sys

from pylsp_jsonrpc.endpoint import Endpoint
from pylsp_jsonrpc.exceptions import JsonRpcException
from pylsp_jsonrpc.streams import JsonRpcStreamReader, JsonRpcStreamWriter

from methods import METHODS, Refusal

logging.disable(logging.CRITICAL)
reader, writer = JsonRpcStreamReader(sys.stdin.buffer), JsonRpcStreamWriter(sys.stdout.buffer)


def handler(method):
    def run(params):
        try:
            return method(**params) if isinstance(params, dict) else method(*(params or []))
        except Refusal as refusal:
            raise JsonRpcException(refusal.message, refusal.code, refusal.data)
        except TypeError as err:
            raise JsonRpcException(str(err), -32602)

    return lambda params: lambda: run(params)


def countdown(params):
    for left in range(params["from"], 0, -1):
        endpoint.notify("countdown/tick", {"left": left})
    return "liftoff"


methods = {name: handler(method) for name, method in METHODS.items()}
# A notification is handled on the spot, so that the next request sees what it did.
methods["log_event"] = lambda params: METHODS["log_event"](*params)
methods["countdown"] = lambda params: lambda: countdown(params)
methods["ask"] = lambda params: lambda: endpoint.request("answer", params).result(10)
endpoint = Endpoint(methods, writer.write, max_workers=64)
reader.listen(endpoint.consume)
os._exit(0)
