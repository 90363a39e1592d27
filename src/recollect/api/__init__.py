"""What a program calls: load, train, evaluate, race. The command line stands on the same functions."""
