"""An engine, and a client of it over HTTP."""

import pytest

from onlinecal.engine import Engine


@pytest.fixture
def engine():
    with Engine() as engine:
        yield engine


@pytest.fixture
def client(engine):
    from tests.engine.http.clients import client_of

    with client_of(engine) as client:
        yield client
