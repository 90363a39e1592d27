"""Triton's interpreter, in which kernels are tested without a GPU."""

from recollect.layers import kernels


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
