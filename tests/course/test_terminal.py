"""Sections of chapters as parts for a terminal, and formulas as plain text."""

import pytest

from recollect.learn.chapters import LANGUAGES, read_chapters
from recollect.learn.terminal import Part, clean, read_formula, split_section

SECTION = """
The [RNN](02-rnn.md) of [a page](https://example.org), with `code`.
<!-- en 0123 -->
![A window](figures/window.svg)

$$h_t=\\tanh(W x_t+b)$$

    STATE   h

```python
print(1)
```

```text
1
```

```sh
./recollect learn
```

<details><summary>Answers</summary>

1. One.

</details>
"""


def test_a_section_falls_into_its_parts_in_order():
    assert list(split_section(SECTION)) == [
        Part("text", "The RNN of [a page](https://example.org), with `code`."),
        Part("figure", "A window", "figures/window.svg"),
        Part("formula", "h_t = tanh(W x_t + b)"),
        Part("text", "    STATE   h"),
        Part("python", "print(1)\n"),
        Part("printed", "1\n"),
        Part("sh", "./recollect learn\n"),
        Part("answer", "1. One.", "Answers"),
    ]


@pytest.mark.parametrize(
    ("latex", "plain"),
    [
        (r"P(x_1,\dots,x_T)=\prod_{t=1}^{T}P(x_t\mid x_{t-1})", "P(x_1,…,x_T) = ∏_{t=1}^T P(x_t | x_{t−1})"),
        (r"\frac{\exp e_{t,i}}{\sum_j\exp e_{t,j}}", "(exp e_{t,i})/(Σ_j exp e_{t,j})"),
        (
            r"\mathrm{softmax}\Bigl(\frac{Q_mK_m^{\top}}{\sqrt{D/h}}\Bigr)V\qquad K(u)=e^{-u^2/2}",
            "softmax(Q_mK_mᵀ/√(D/h))V        K(u) = e^{−u²/2}",
        ),
        (r"\frac{\partial h_t}{\partial w}=\frac{\partial^{+} h_t}{\partial w}", "∂h_t/∂w = ∂⁺h_t/∂w"),
        (r"\hat v=-\tfrac12(q-k)^2", "v̂ = −1/2 (q−k)²"),
    ],
)
def test_a_formula_is_read_as_plain_text(latex, plain):
    assert read_formula(latex) == plain


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_formula_of_a_chapter_keeps_a_command_of_latex(language):
    parts = [
        part for chapter in read_chapters(language) for own in chapter.sections.values() for part in split_section(own)
    ]
    formulas = [part.text for part in parts if part.kind == "formula"]
    assert len(formulas) > 10
    assert [text for text in formulas if "\\" in text or "\x01" in text or "\x03" in text] == []
    assert [part.text for part in parts if part.kind == "text" and ("$$" in part.text or "<!--" in part.text)] == []


def test_folded_chinese_is_joined_without_a_blank_and_code_is_left_alone():
    assert clean("预测所能依靠的\n也只有这一点。\n\n    STATE   h") == "预测所能依靠的也只有这一点。\n\n    STATE   h"
    assert clean("one\ntwo") == "one\ntwo"
