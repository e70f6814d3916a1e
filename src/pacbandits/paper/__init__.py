"""The paper's algorithms as corrected, with proven constants, and their designs, estimators and oracles.

- `rage`, `rage_free`, `coda`: one algorithm each; `coda_oracle` needs no list of the class, `coda_common` shows the
  cost of one common γ; `rounds` holds what they share.
- `rage_features`: RAGE for rewards that are linear in given features, with and without elimination; `given_features`
  holds what both share.
- `frank_wolfe`, `frank_wolfe_oracle`: FW-GD on a table, and through oracles; `pairs`: the design for all pairs of
  policies that `rage` needs.
- `estimators`: importance weighting and Catoni's mean, on a log sorted into cells.
- `oracles`: the paper's reductions to argmax oracles.
- `offline_contexts`: the numbers of offline contexts in the paper's proofs; used by tests and a benchmark.

Each departure from the paper is marked in its module, with the row of docs/corrections.md.
"""
