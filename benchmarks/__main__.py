"""All benchmarks: `python -m benchmarks`."""

from __future__ import annotations

from benchmarks import (
    certify,
    constants,
    designs,
    estimates,
    linear_oracle,
    offline,
    oracle_calls,
    per_context,
    rage_on_hard,
    realizable,
    savings,
    scale,
    small_epsilon,
    trees,
    trials,
)

designs.main()
trees.main()
estimates.main()
rage_on_hard.main()
constants.main()
small_epsilon.main()
oracle_calls.main()
offline.main()
per_context.main()
certify.main()
trials.main(9)
savings.main(3)
linear_oracle.main()
realizable.main()
scale.main([])
