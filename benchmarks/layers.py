"""Layers beside torch.nn: one step, and whole sequences forward and backward."""

from collections.abc import Iterator

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

import recollect

from .measure import Row, compare

CELLS = {"rnn": (nn.RNN, nn.RNNCell), "lstm": (nn.LSTM, nn.LSTMCell), "gru": (nn.GRU, nn.GRUCell)}


def step(device: str, width: int = 512, batches: tuple[int, ...] = (1, 32)) -> Iterator[Row]:
    """One step of rnn, lstm, gru beside torch's cell of the same weights. Ours never goes through nn.LSTM."""
    for name, (whole, single) in CELLS.items():
        for batch in batches:
            layer = recollect.build(name, dim=width).to(device).eval()
            cell = single(width, width).to(device)
            with torch.no_grad():
                for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
                    getattr(cell, kind).copy_(getattr(layer, f"{kind}_l0"))
            fused = layer.to_torch().eval()
            assert isinstance(fused, whole)
            x = torch.randn(batch, 1, width, device=device)
            _, state = layer(torch.randn(batch, 3, width, device=device), layer.initial_state(batch))
            h = state.h[:, 0].contiguous()
            hidden = (h, state.c[:, 0].contiguous()) if name == "lstm" else h
            packed = tuple(t[None] for t in hidden) if name == "lstm" else h[None]
            with torch.no_grad():
                expected = cell(x[:, 0], hidden)
                torch.testing.assert_close(layer(x, state)[0][:, 0], expected[0] if name == "lstm" else expected)

                yield compare(
                    f"step {name} B{batch} H{width}",
                    lambda layer=layer, x=x, state=state: layer(x, state),
                    {
                        f"nn.{single.__name__}": lambda cell=cell, x=x, hidden=hidden: cell(x[:, 0], hidden),
                        f"nn.{whole.__name__}": lambda fused=fused, x=x, packed=packed: fused(x, packed),
                    },
                    device=device,
                    rounds=31,
                )


def sequence(device: str, batch: int = 32, steps: int = 256, width: int = 512) -> Iterator[Row]:
    """Whole sequences, forward and backward, beside torch.nn with the same weights."""
    for name in CELLS:
        layer = recollect.build(name, dim=width).to(device)
        peer = layer.to_torch()
        x = torch.randn(batch, steps, width, device=device)
        state = layer.initial_state(batch)
        torch.testing.assert_close(layer(x, state)[0], peer(x)[0])

        def ours(layer=layer, x=x) -> None:
            layer(x, layer.initial_state(len(x)))[0].sum().backward()

        def theirs(peer=peer, x=x) -> None:
            peer(x)[0].sum().backward()

        yield compare(
            f"sequence {name} forward+backward B{batch} T{steps} H{width}",
            ours,
            {f"nn.{type(peer).__name__}": theirs},
            device=device,
            rounds=7,
            seconds=0.5,
        )


def causal(device: str, batch: int = 4, steps: int = 512, width: int = 256, heads: int = 4) -> Iterator[Row]:
    """Attention with an empty cache beside SDPA with is_causal and with a dense mask, projections included."""
    layer = recollect.build("attention", dim=width, heads=heads).to(device).eval()
    x = torch.randn(batch, steps, width, device=device)
    dense = torch.ones(steps, steps, dtype=torch.bool, device=device).tril()
    project = layer.heads

    def plain(**mask):
        q, k, v = (t(x).transpose(1, 2) for t in (project.query, project.key, project.value))
        return project.merge(scaled_dot_product_attention(q, k, v, **mask).transpose(1, 2))

    with torch.no_grad():
        torch.testing.assert_close(layer(x, layer.initial_state(batch))[0], plain(is_causal=True))
        yield compare(
            f"attention empty cache B{batch} T{steps} D{width}",
            lambda: layer(x, layer.initial_state(batch)),
            {"SDPA is_causal": lambda: plain(is_causal=True), "SDPA dense mask": lambda: plain(attn_mask=dense)},
            device=device,
            rounds=15,
        )


ROWS = {"step": step, "sequence": sequence, "causal": causal}
