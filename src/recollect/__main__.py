"""`python -m recollect`: the command line, where the script `recollect` is not on the path."""

if __name__ == "__main__":
    from .cli import main

    main()
