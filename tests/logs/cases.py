"""A log in a table, and what to do with files of logs."""

from __future__ import annotations

import pytest

from pacbandits import InputError, read_log

CSV = """age,place,action,reward,propensity
20,north,0,1,0.5
30,south,1,0.25,0.2
40,north,2,0,0.3
50,north,0,1,0.5
"""


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def refused(words, *arguments, **options):
    with pytest.raises(InputError) as caught:
        read_log(*arguments, **options)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
