"""The paper's reductions to oracles: constraints, excluding a set, the steps of CODA and FW-GD, on any argmax oracle.

`pacbandits.paper.coda_oracle` is made of `free` and `excluding`; the steps as printed stand here as statements of the
paper that tests check.

- `constrained`: C-AMO, exact or relaxed; the relaxed form walks the `hull`.
- `excluding`: the best policy outside a set, for the steps of `reductions`.
- `reductions`: the steps as printed, with γ fixed outside the support; `free`: with every γ minimised.
- `estimates`: what the steps are given; `choice`: what every search hands back.
"""
