"""What was published, as corrected: algorithms with constants that are proven, their designs, estimators and oracles.

- `rage`, `rage_free`, `coda`: one algorithm each; `coda_oracle` needs no list of the class, `coda_common` shows what
  one γ for everything costs; `base` and `listed` have what they share.
- `rage_features`, `rage_free_features`: RAGE for rewards that are linear in given features; `given_features` has what
  they share.
- `design`: FW-GD, and the design for all pairs of policies that `rage` needs.
- `estimators`: importance weighting and Catoni's mean, on a log sorted into cells.
- `oracles`: the paper's reductions to argmax oracles.
- `offline_contexts`: how many of them the paper's proofs ask for, which tests and a benchmark reach.

Where a module departs from the paper it says so, with the row of docs/corrections.md.
"""
