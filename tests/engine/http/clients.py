"""A client of the engine's HTTP application, without a server between them. Needs the extra `serve`."""

import warnings

from onlinecal.engine import AsyncEngine
from onlinecal.engine.http.app import create_app

with warnings.catch_warnings():
    # newer starlettes would rather have another httpx
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

TOKEN = "correct-horse-battery"


def client_of(engine, **settings):
    app = create_app(AsyncEngine(engine), **settings)
    return TestClient(app, base_url="http://127.0.0.1:8765")
