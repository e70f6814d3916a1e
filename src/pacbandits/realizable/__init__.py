"""Linear rewards, a model of its own: algorithm, designs, certificate, complexity. Linear *policies* live elsewhere.

What each module is for, from the bottom:

    whitening         the two steps to coordinates in which uniform exploration has the identity for its information
    coordinates       features in such coordinates, for designs
    span, moments     features in such coordinates, for certificates; what a log says in them
    quadratic_forms   information matrices and lengths
    cones             branch and bound over directions
    deviation         how much better than q any policy may be, within an ellipsoid

    pool_design       the best design for given directions
    costs             what policies cost at a design; cost_bound: what the worst of all policies costs at the most
    searched_design   the best design for all linear policies
    instance, rho     a problem and both ends of its ρ_lin
    complexity        everything the theory says of it, in one record: `measure_realizable`

    population        the contexts of a certificate and what is compared on them
    certificate       the claim; making: how it is made; verify: how it is rechecked, without the code that made it

    sketch, sampler   a design made on enough of the contexts, and how it is played on all
    state             what linear-rage knows between rounds; round_design: for what it designs the next
    algorithm         the loop
"""
