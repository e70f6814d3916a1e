"""Linear rewards, a model of its own: algorithm, designs, certificate, complexity. Linear *policies* live elsewhere."""
