"""What the tests of the HTTP server share."""

import socket

import pytest


@pytest.fixture
def small_buffers(monkeypatch):
    """The system takes little of what a server sends before the client reads it."""
    server = pytest.importorskip("onlinecal.engine.http.server", reason="needs the extra serve")
    bind = server.bind

    def with_small_buffers(host, port):
        listening = bind(host, port)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 12)
        return listening

    monkeypatch.setattr(server, "bind", with_small_buffers)
