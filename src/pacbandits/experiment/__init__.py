"""A durable ask/tell experiment: a trial on live traffic, its state in a database, its record sealed."""
