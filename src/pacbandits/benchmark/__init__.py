"""Every rival on the same problems, by the same yardsticks; tables and figures come from logged results alone."""
