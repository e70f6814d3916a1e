"""Logs of experiments that took place."""

from __future__ import annotations

import numpy as np
import pytest

from pacbandits import InputError
from pacbandits.problems.past_logs import load_log


@pytest.mark.thorough
def test_actg175_is_the_trial_itself():
    pytest.importorskip("lifelines")
    log = load_log("actg175")
    assert (len(log), log.n_actions) == (2139, 4)
    assert np.bincount(log.actions).tolist() == [532, 522, 524, 561]
    assert log.action_names[0] == "zidovudine"
    assert log.rewards[log.actions == 0].mean() == pytest.approx(0.733, abs=1e-3)
    assert (log.propensities == 0.25).all()
    assert any("2,467 who were randomised" in words for words in log.assumed)


def test_an_unknown_name_is_said():
    with pytest.raises(InputError, match="there is no log 'actg176'; did you mean 'actg175'"):
        load_log("actg176")
