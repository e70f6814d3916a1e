"""How many examples Hypothesis tries of a property: a fifth in `make test`, all in `make test-all`."""

from __future__ import annotations

import os

from hypothesis import settings

PROFILE = os.environ.get("PACBANDITS_HYPOTHESIS", "steady")
MIN_EXAMPLES = 5


def examples(count: int) -> settings:
    """The settings of a property that is worth this number of examples."""
    return settings(max_examples=max(count // 5, min(count, MIN_EXAMPLES)) if PROFILE == "steady" else count)
