"""The product's loop: trials that stop by their certificate, and how their state is kept."""
