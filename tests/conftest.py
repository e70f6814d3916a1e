"""Hypothesis: the same examples at every run of `make test`; new ones at every run of `make test-slow`."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("PACBANDITS_HYPOTHESIS", "steady"))
