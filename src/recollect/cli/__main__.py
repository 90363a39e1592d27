"""`python -m recollect.cli`: the same as `python -m recollect`."""

if __name__ == "__main__":
    from . import main

    main()
