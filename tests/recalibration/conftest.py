"""What tests of recalibrators share."""

import pytest
import threadpoolctl


@pytest.fixture(autouse=True, scope="module")
def libraries():
    """Which libraries have threads is found once a file: it takes 3 ms, and a fit asks hundreds of times."""
    found = threadpoolctl.ThreadpoolController()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threadpoolctl, "ThreadpoolController", lambda: found)
        yield
