"""The paper's reductions to oracles: constraints, excluding a set, the steps of CODA and FW-GD, on any argmax oracle.

They stand here as statements of the paper that tests check: no algorithm of this package calls them, as `coda-paper`
either visits every policy or shares one γ among all (`pacbandits.paper.coda_common`).

- `constrained`: C-AMO, exact or relaxed; the relaxed form walks the `hull`.
- `excluding`: the best policy outside a set, for the steps of `reductions`.
- `reductions`: the steps as printed, with γ fixed outside the support; `free`: with every γ minimised.
- `estimates`: what the steps are given; `choice`: what every search hands back.
"""
