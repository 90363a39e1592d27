"""Fair races: every model of the lineage on the same task, on equal terms."""
