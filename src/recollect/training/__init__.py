"""One loop for every task: optimisers, budgets, checkpoints, run folders."""
