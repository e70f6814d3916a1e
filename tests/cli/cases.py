"""Small runs for the command line, and what their JSON must have."""

RUN_KEYS = {
    *("algorithm", "problem", "seed", "epsilon", "delta", "samples", "rounds", "oracle_calls", "value_gap", "correct"),
    *("stopped", "guarantee", "seconds", "history", "reason", "policy", "words"),
}
SMALL = "hard:m=6,noise=bernoulli"
TRIAL = ("run", "two-of-many:actions=8,policies=40,contexts=20", "--epsilon", 0.1, "--seed", 3)
