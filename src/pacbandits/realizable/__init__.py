"""Linear rewards, a model of its own: algorithm, designs, certificate, complexity. Linear *policies* are elsewhere.

The modules, from the bottom up:

    features        coordinates in which uniform exploration has the identity as its information; for designs and
                    certificates
    moments         the information and moments of a log, and the contexts of a certificate
    cones           branch and bound over directions
    deviation       the largest gain over q of any policy, within a confidence ellipsoid

    pool_design     the best design for given directions
    policy_search   the costs of policies at a design, a bound on the largest, and the best design for linear policies
    sampler         a design computed on a sample of the contexts, and its propensities on all of them
    complexity      ρ_lin and all theoretical quantities in one record: `measure_realizable`

    certificate     the claim; `certify` makes it, `verify` rechecks it, sharing only `deviation`
    algorithm       linear-rage: its state, the design of a round, and the loop
"""
