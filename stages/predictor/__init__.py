"""Response lengths learned from a profile (`train`) and told for every prompt (`predict`)."""
