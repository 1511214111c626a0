"""A FastAPI server of the demo methods under uvicorn, with the package json-rpc behind it. It prints where it listens."""

import json
import socket

import uvicorn
from fastapi import FastAPI, Request, Response
from jsonrpc import JSONRPCResponseManager
from jsonrpc.exceptions import JSONRPCDispatchException
from starlette.concurrency import run_in_threadpool

from methods import METHODS, Refusal


def refusing(method):
    """Turns a Refusal into what the package sends as an error."""

    def run(*args, **kwargs):
        try:
            return method(*args, **kwargs)
        except Refusal as refusal:
            raise JSONRPCDispatchException(code=refusal.code, message=refusal.message, data=refusal.data)

    return run


dispatcher = {name: refusing(method) for name, method in METHODS.items()}
app = FastAPI()


@app.post("/rpc")
async def rpc(request: Request):
    answer = await run_in_threadpool(JSONRPCResponseManager.handle, await request.body(), dispatcher)
    if answer is None:
        return Response(status_code=204)
    return Response(answer.json, media_type="application/json")


listener = socket.create_server(("127.0.0.1", 0))
print(json.dumps({"http": "http://127.0.0.1:%d/rpc" % listener.getsockname()[1]}), flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])
