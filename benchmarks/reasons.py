"""Why ours is slower than its best peer in some rows on a CPU: by the beginning of a row's name, the longest first."""

GOES_ON = (
    "The peer computes one step again and again on the same arrays; ours goes on from the state that it left, in other "
    "memory at each step."
)
REASONS = {
    "step of ": "Each call checks x and its state and copies y: 1 to 2 µs beside the 9 to 28 µs of these steps.",
    "step of transformer width 128 after 4,096 tokens": (
        "The cache has room for a quarter more than was seen, the peer's for just the steps of the row."
    ),
    "step ": GOES_ON,
    "step rnn B1 ": (
        "torch's cell is one call into its library; ours checks x and the state first, and a session of onnxruntime "
        "takes longer than either."
    ),
    "step rnn B32 ": "Both sides spread by more than the difference.",
    "step conv B1 ": "Each call checks x and its state: some 2 µs of a short step.",
    "ttt-mlp step ": (
        "torch.compile fuses the small operations of a step into a few loops; onnxruntime runs each by itself."
    ),
    "convolution forward+backward ": "Window and inputs are joined first, and the last inputs stay as the state.",
    "sequence rnn forward+backward ": "The same matrix products as torch's; the difference is within the spread.",
    "attend greedy ": "A search makes many small operations beside the model's; the difference is within the spread.",
    "translating ": (
        "The search around the step: top-k and log-softmax over the vocabulary, and caches that follow their prefixes. "
        "A source's keys and values are read once for each prefix, not once for each sentence."
    ),
}


def find_reason(row: str) -> str | None:
    """Why the row is slower, where that is known."""
    start = max((start for start in REASONS if row.startswith(start)), key=len, default=None)
    return None if start is None else REASONS[start]
