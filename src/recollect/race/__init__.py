"""Fair races: every model of the lineage on the same job, on equal terms."""
