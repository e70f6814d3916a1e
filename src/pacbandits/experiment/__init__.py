"""Durable ask/tell experiments: a trial on live traffic, its state in a database, its event log hash-chained."""
