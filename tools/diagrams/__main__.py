"""Write figures of the course: all of them, or those that are named."""

import sys

from .figures import DRAWN, LANGUAGES, path_of, render


def main() -> int:
    for name in sys.argv[1:] or DRAWN:
        for language in LANGUAGES:
            path_of(name, language).write_text(render(name, language), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
