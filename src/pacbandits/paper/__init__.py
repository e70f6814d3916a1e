"""What was published, as corrected: algorithms with constants that are proven, their oracles, designs, estimators."""
