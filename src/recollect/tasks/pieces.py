"""A vocabulary for programs without a tokenizer: the text of each token, and an example that was encoded."""

from typing import Any


def describe_vocabulary(tokenizer: Any, example: str) -> dict[str, Any]:
    """`pieces` by number, what stands `between` two of them, and an example as text and tokens.

    A token that is only a part of a character has U+FFFD as its piece: the tokenizer's own file says more.
    """
    text, tokens = encode_example(tokenizer, example)
    return {
        "pieces": [tokenizer.decode([number]) for number in range(tokenizer.size)],
        "between": " " if tokenizer.kind == "words" else "",
        "example": {"text": text, "tokens": tokens},
    }


def encode_example(tokenizer: Any, example: str) -> tuple[str, list[int]]:
    """An example and its tokens: where the vocabulary lacks the text, that of its first token."""
    for text in (example, example.lower(), " ", "\n"):
        try:
            if tokens := tokenizer.encode(text).tolist():
                return text, tokens
        except ValueError:  # not in this vocabulary
            continue
    return tokenizer.decode([0]), [0]
