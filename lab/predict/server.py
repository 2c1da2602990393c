# SPDX-License-Identifier: GPL-2.0-only
"""A server in a process of its own, and a client that asks it: `tcp PORT`, `unix PATH` or `web PORT`."""
import http.client
import http.server
import os
import socket
import sys

REQUESTS = 12000
WEB_REQUESTS = 600


def answer(listener):
    """Takes one connection: `key value` stores, `key` alone asks."""
    connection, _ = listener.accept()
    store = {}
    with connection, connection.makefile("rwb") as stream:
        for line in stream:
            key, *value = line.split()
            if value:
                store[key] = value[0]
            stream.write(store.get(key, b"-") + b"\n")
            stream.flush()


def ask(address, family):
    with socket.socket(family) as connection:
        connection.connect(address)
        if family == socket.AF_INET:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection.makefile("rwb") as stream:
            for number in range(REQUESTS):
                words = f"key{number % 50}" + (f" {number}" if number % 3 == 0 else "")
                stream.write(words.encode() + b"\n")
                stream.flush()
                stream.readline()


class Pages(http.server.BaseHTTPRequestHandler):
    """Makes a page of some kilobytes for each request."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # headers and page in one segment

    def do_GET(self):
        body = "".join(f"<li>{i * i}</li>" for i in range(500)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def main(kind, where):
    if kind == "unix":
        if os.path.exists(where):
            os.unlink(where)
        family, address = socket.AF_UNIX, where
    else:
        family, address = socket.AF_INET, ("127.0.0.1", int(where))
    if kind == "web":
        server = http.server.HTTPServer(address, Pages)
        child = os.fork()
        if child == 0:
            # The client keeps its connection: one is all there will be.
            server.handle_request()
            os._exit(0)
        client = http.client.HTTPConnection(*address)
        for _ in range(WEB_REQUESTS):
            client.request("GET", "/")
            client.getresponse().read()
        client.close()
    else:
        listener = socket.socket(family)
        if family == socket.AF_INET:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(1)
        child = os.fork()
        if child == 0:
            answer(listener)
            os._exit(0)
        ask(address, family)
    os.waitpid(child, 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
