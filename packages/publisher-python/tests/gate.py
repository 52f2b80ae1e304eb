"""A faulty HTTP proxy between a publisher and Halcyon."""

import http.client
import json
import re
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


class Gate:
    """`fate(n)` decides about the request with events number n: None, "busy" (429 with Retry-After), "failed" (503), "refused"
    (the server does not get the request), "lost" (the response is dropped), "held" (until `release`), "page" (of another
    server), "long" (8 MiB of spaces after the response), or "cut" (the connection ends before the last byte)."""

    def __init__(self, target):
        self.target = urlsplit(target)
        self.fate = lambda n: None
        self.posts = []
        self.tokens = 0
        self.overlaps = 0
        self._active = []
        self._lock = threading.Lock()
        self._released = threading.Event()
        gate = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self):
                gate.handle(self)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self):
        self.release()
        self._server.shutdown()
        self._server.server_close()

    def release(self):
        self.fate = lambda n: None
        self._released.set()

    def handle(self, request):
        body = request.rfile.read(int(request.headers["Content-Length"]))
        store = re.fullmatch(r"/stores/(\d+)/events", request.path)
        fate, released = None, self._released
        with self._lock:
            if request.path == "/token":
                self.tokens += 1
            if store:
                key, events = request.headers["Idempotency-Key"], json.loads(body)
                token = request.headers["Authorization"].removeprefix("Bearer ")
                self.posts.append({"store": store[1], "key": key, "body": body, "events": events, "token": token})
                fate = self.fate(len(self.posts) - 1)
                self.overlaps += store[1] in self._active
                self._active.append(store[1])
        answer = self._forward(request, body, fate, released)
        # Before the response, after which the publisher may send the next request.
        with self._lock:
            if store:
                self._active.remove(store[1])
        if answer is None:
            self._drop(request)
        else:
            self._respond(request, *answer)

    def _forward(self, request, body, fate, released):
        """Returns status, headers and body of the response; None to close the connection."""
        if fate == "page":
            return 200, {}, b"<html>Sign in to the network</html>"
        if fate == "busy":
            return 429, {"Retry-After": "2"}, b""
        if fate == "failed":
            return 503, {}, b""
        if fate == "refused":
            return None
        connection = http.client.HTTPConnection(self.target.hostname, self.target.port)
        headers = {name: value for name, value in request.headers.items() if name.lower() != "host"}
        connection.request("POST", request.path, body, headers)
        response = connection.getresponse()
        text = response.read()
        connection.close()
        if fate == "lost":
            return None
        if fate == "held":
            released.wait()
        if fate == "long":
            text += b" " * 8 * 1024 * 1024
        headers = {"Content-Type": response.headers["Content-Type"], "Content-Length": str(len(text))}
        if fate == "cut":
            return response.status, {**headers, "Connection": "close"}, text[:-1]
        return response.status, headers, text

    def _drop(self, request):
        request.close_connection = True
        request.connection.shutdown(socket.SHUT_RDWR)

    def _respond(self, request, status, headers, text):
        try:
            request.send_response(status)
            for name, value in {"Content-Length": str(len(text)), **headers}.items():
                request.send_header(name, value)
            request.end_headers()
            request.wfile.write(text)
        except OSError:
            request.close_connection = True
