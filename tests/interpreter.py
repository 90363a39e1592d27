"""Triton's interpreter, in which kernels are tested without a GPU."""

import os
import subprocess
import sys

from recollect import kernels


def mend() -> None:
    """Let Triton 3.6 take the number out of an array of one, in a way that numpy 2.4 does not refuse."""
    if not (kernels.installed() and kernels.interpreted()):
        return
    from triton.runtime import interpreter  # pyright: ignore[reportMissingImports]

    own = interpreter._patch_lang_tensor

    def mended(tensor, scope):
        own(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())

    interpreter._patch_lang_tensor = mended


def passes(file: str, *options: str) -> None:
    """Run the tests of a file there, and see them pass.

    Triton asks whether to interpret when it is first imported, as torch may do: so it takes a fresh process.
    """
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", file, *options]
    done = subprocess.run(
        command, env=os.environ | {"TRITON_INTERPRET": "1"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
