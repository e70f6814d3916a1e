"""The lists of what there is by name."""

from __future__ import annotations

import json

import pytest


@pytest.mark.parametrize("what", ["algorithms", "policies", "problems"])
def test_lists_are_json_too(run, what):
    code, out, err = run(what, "--json")
    assert (code, err) == (0, "")
    assert len(json.loads(out)) >= 3


def test_no_limit_is_null(run):
    assert json.loads(run("policies", "--json")[1])["trees"]["options"]["budget"]["default"] is None
