"""A certificate by sums records what was learnt from how many rows, so that new defaults break no verification."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pacbandits.certificate import Certificate
from pacbandits.certificate.summed import limits
from pacbandits.certificate.summed.limits import LIMITS, RELEASED_LIMITS
from pacbandits.certificate.summed.survey import survey_certified
from pacbandits.engines import LogSource
from pacbandits.errors import InputError
from pacbandits.verifier import rows_to_test
from tests.certificate.summed.cases import KINDS, QUICK, SMALL, THREADS, by_sums


def made(**asked):
    kind = KINDS["rounds"]
    log = kind.log(2000, 2)
    return by_sums(kind, LogSource(log), **QUICK, **asked), log


def test_the_defaults_are_those_of_a_release():
    assert LIMITS in RELEASED_LIMITS
    assert RELEASED_LIMITS[0].to_json() == {"early": 262_144, "neighbours": 16_384, "watched": 262_144, "block": 65_536}


def test_a_file_without_limits_has_those_of_the_first_release():
    found, _ = made()
    assert found.limits == RELEASED_LIMITS[0]
    assert "limits" not in found.to_json()
    assert Certificate.from_json(found.to_json()).limits == RELEASED_LIMITS[0]


def test_other_limits_are_recorded_and_rows_are_read_again_by_them(monkeypatch):
    monkeypatch.setattr(limits, "RELEASED_LIMITS", (*RELEASED_LIMITS, SMALL))
    found, log = made(limits=SMALL)
    assert found.to_json()["limits"] == SMALL.to_json()
    again = Certificate.from_json(found.to_json())
    assert again.limits == SMALL
    surveyed = survey_certified(again, LogSource(log), engine=THREADS)
    assert (len(surveyed.early), len(surveyed.watched)) == (SMALL.early, len(rows_to_test(again, log).along_file))
    assert surveyed.digest == again.digest


@pytest.mark.parametrize("change", [{"early": 1000}, {"early": "many"}, {"more": 1}])
def test_limits_that_no_release_has_used_are_refused(change):
    found, _ = made()
    altered = found.to_json() | {"limits": RELEASED_LIMITS[0].to_json() | change}
    with pytest.raises(InputError, match="no release of pacbandits has used these 'limits'"):
        Certificate.from_json(altered)
    with pytest.raises(InputError, match="no release"):
        Certificate.from_json(replace(found, limits=SMALL).to_json())
