"""A large file with no newline in it trains in little memory."""

import os
import subprocess
import sys

import pytest

BYTES = 200_000_000
LIMIT = 1_000_000_000  # of resident memory


@pytest.mark.deep
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss counts kilobytes on Linux")
def test_one_line_of_200_mb_trains_in_under_a_gigabyte(tmp_path):
    book = tmp_path / "line.txt"
    block = ("Ein Satz ohne Ende, über Bäume und Flüsse, " * 25_000).encode()
    with book.open("wb") as file:
        while file.tell() < BYTES:
            file.write(block)
    code = (
        "import resource, sys\nfrom recollect import cli\n"
        "try:\n    cli.main()\nexcept SystemExit as done:\n    assert not done.code, done.code\n"
        "print('peak', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    arguments = ["train", "text", "--data", str(book), "--model", "lstm", "--width", "16", "--steps", "5"]
    arguments += ["--set", "eval_tokens=5000", "--device", "cpu", "--out", str(tmp_path / "run")]
    env = os.environ | {"RECOLLECT_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, env=env, check=False
    )
    assert done.returncode == 0, done.stderr
    peak = 1024 * int(done.stdout.rsplit("peak", 1)[1])
    assert peak < LIMIT, f"{peak / 1e6:.0f} MB"
