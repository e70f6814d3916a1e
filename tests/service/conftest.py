"""One service for all tests of a file that do not change it for the others."""

from __future__ import annotations

import pytest

from tests.service.cases import serving


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("service")) as asked:
        asked.keys = asked.create()
        yield asked
