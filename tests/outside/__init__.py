"""What a stranger would write: an algorithm, a policy class and a problem, each in one file of its own."""
