"""Reward models: a guess of r(c, a) from the past, to centre what is estimated from the future."""
