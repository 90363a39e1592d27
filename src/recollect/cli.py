"""The command line: parses, calls, prints."""


def main() -> None:
    print("recollect")
