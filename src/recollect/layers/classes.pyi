"""Layers and encoders with their keyword arguments. Written by `python -m tools.layers` from their settings."""

from typing import Any, Literal, overload

from ..core import contract
from . import (
    attention,
    combine,
    context,
    conv,
    cross_attention,
    delta,
    dropout,
    encoder,
    fixed,
    gated_conv,
    gated_delta,
    gla,
    gru,
    linear_attention,
    lstm,
    mamba2,
    matrix,
    mingru,
    minlstm,
    mlp,
    norm,
    position,
    retention,
    rnn,
    soft_align,
    tcn,
    transformer,
    ttt,
    window,
)

class Window(window.Window):
    """A linear or nonlinear autoregression of order τ."""

    @overload
    def __init__(self, config: window.Config, /) -> None: ...
    @overload
    def __init__(
        self,
        *,
        dim: int,
        width: int | None = None,
        tau: int = 4,
        map: Literal["linear", "mlp"] = "linear",
        hidden: int | None = None,
    ) -> None: ...

class RNN(rnn.RNN):
    """Elman's layer, any number deep."""

    @overload
    def __init__(self, config: rnn.Config, /) -> None: ...
    @overload
    def __init__(
        self,
        *,
        dim: int,
        width: int | None = None,
        num_layers: int = 1,
        dropout: float = 0.0,
        weight_dropout: float = 0.0,
        bias: bool = True,
        nonlinearity: Literal["tanh", "relu"] = "tanh",
    ) -> None: ...
    @overload
    def __init__(
        self,
        input_size: int,
        hidden_size: int | None = None,
        num_layers: int = 1,
        *,
        dropout: float = 0.0,
        weight_dropout: float = 0.0,
        bias: bool = True,
        nonlinearity: Literal["tanh", "relu"] = "tanh",
        batch_first: Literal[True] = True,
        bidirectional: Literal[False] = False,
        proj_size: Literal[0] = 0,
    ) -> None: ...

class LSTM(lstm.LSTM):
    """The LSTM layer, any number deep; gradients pass along c where the forget gates are near 1."""

    @overload
    def __init__(self, config: lstm.Config, /) -> None: ...
    @overload
    def __init__(
        self,
        *,
        dim: int,
        width: int | None = None,
        num_layers: int = 1,
        dropout: float = 0.0,
        weight_dropout: float = 0.0,
        bias: bool = True,
        forget_bias: float = 0.0,
    ) -> None: ...
    @overload
    def __init__(
        self,
        input_size: int,
        hidden_size: int | None = None,
        num_layers: int = 1,
        *,
        dropout: float = 0.0,
        weight_dropout: float = 0.0,
        bias: bool = True,
        forget_bias: float = 0.0,
        batch_first: Literal[True] = True,
        bidirectional: Literal[False] = False,
        proj_size: Literal[0] = 0,
    ) -> None: ...

class GRU(gru.GRU):
    """Cho's layer, any number deep."""

    @overload
    def __init__(self, config: gru.Config, /) -> None: ...
    @overload
    def __init__(
        self,
        *,
        dim: int,
        width: int | None = None,
        num_layers: int = 1,
        dropout: float = 0.0,
        weight_dropout: float = 0.0,
        bias: bool = True,
        reset: Literal["after", "before"] = "after",
    ) -> None: ...
    @overload
    def __init__(
        self,
        input_size: int,
        hidden_size: int | None = None,
        num_layers: int = 1,
        *,
        dropout: float = 0.0,
        weight_dropout: float = 0.0,
        bias: bool = True,
        reset: Literal["after", "before"] = "after",
        batch_first: Literal[True] = True,
        bidirectional: Literal[False] = False,
        proj_size: Literal[0] = 0,
    ) -> None: ...

class MinGRU(mingru.MinGRU):
    """A GRU without a reset gate, whose update gate and candidate are functions of x alone."""

    @overload
    def __init__(self, config: mingru.Config, /) -> None: ...
    @overload
    def __init__(
        self,
        *,
        dim: int,
        width: int | None = None,
        candidate: Literal["linear", "positive"] = "linear",
        forget_bias: float = 0.0,
        bias: bool = True,
    ) -> None: ...

class MinLSTM(minlstm.MinLSTM):
    """An LSTM without a cell beside h, whose gates and candidate are functions of x alone."""

    @overload
    def __init__(self, config: minlstm.Config, /) -> None: ...
    @overload
    def __init__(
        self,
        *,
        dim: int,
        width: int | None = None,
        candidate: Literal["linear", "positive"] = "linear",
        forget_bias: float = 0.0,
        bias: bool = True,
        normalise: bool = True,
    ) -> None: ...

class CausalConv(conv.CausalConv):
    """A causal, dilated convolution over time."""

    @overload
    def __init__(self, config: conv.Config, /) -> None: ...
    @overload
    def __init__(
        self,
        *,
        dim: int,
        width: int | None = None,
        kernel: int = 3,
        dilation: int = 1,
        depthwise: bool = False,
    ) -> None: ...

class Attention(attention.Attention):
    """Self-attention over all steps so far."""

    @overload
    def __init__(self, config: attention.Config, /) -> None: ...
    @overload
    def __init__(
        self,
        *,
        dim: int,
        width: int | None = None,
        heads: int = 1,
        kv_heads: int | None = None,
        head_dim: int | None = None,
        score: Literal["scaled", "dot", "additive", "general"] = "scaled",
        alignment: Literal["softmax", "hard", "local"] = "softmax",
        window: int | None = None,
        project: bool = True,
        bias: bool = False,
        dropout: float = 0.0,
        positions: Literal["none", "sinusoid", "learned", "rotary", "alibi"] = "none",
        max_positions: int = 1024,
        masked: bool = True,
    ) -> None: ...

class LinearAttention(linear_attention.LinearAttention):
    """Attention whose state is one matrix a head."""

    @overload
    def __init__(self, config: linear_attention.Config, /) -> None: ...
    @overload
    def __init__(
        self,
        *,
        dim: int,
        width: int | None = None,
        heads: int = 1,
        head_dim: int | None = None,
        feature: Literal["elu", "identity"] = "elu",
        normalise: bool = True,
        project: bool = True,
        bias: bool = False,
    ) -> None: ...

class Retention(retention.Retention):
    """A matrix of keys and values that fades at a fixed rate."""

    @overload
    def __init__(self, config: retention.Config, /) -> None: ...
    @overload
    def __init__(
        self,
        *,
        dim: int,
        width: int | None = None,
        heads: int = 1,
        head_dim: int | None = None,
        value_dim: int | None = None,
        forget: Literal["none", "fixed", "step", "channel"] = "fixed",
        signed: bool = False,
        rank: int | None = None,
        write: Literal["add", "delta"] = "add",
        beta: float | None = None,
        tied: bool = False,
        feature: Literal["identity", "elu", "silu"] = "identity",
        unit: bool = False,
        normalise: bool = False,
        rotary: bool = True,
        shared: bool = False,
        out_norm: bool = True,
        out_gate: bool = True,
        norm_last: bool = False,
        skip: bool = False,
        bias: bool = False,
    ) -> None: ...

class GLA(gla.GLA):
    """A matrix of keys and values, each row of which fades as the input says."""

    @overload
    def __init__(self, config: gla.Config, /) -> None: ...
    @overload
    def __init__(
        self,
        *,
        dim: int,
        width: int | None = None,
        heads: int = 1,
        head_dim: int | None = None,
        value_dim: int | None = None,
        forget: Literal["none", "fixed", "step", "channel"] = "channel",
        signed: bool = False,
        rank: int | None = 16,
        write: Literal["add", "delta"] = "add",
        beta: float | None = None,
        tied: bool = False,
        feature: Literal["identity", "elu", "silu"] = "identity",
        unit: bool = False,
        normalise: bool = False,
        rotary: bool = False,
        shared: bool = False,
        out_norm: bool = True,
        out_gate: bool = True,
        norm_last: bool = False,
        skip: bool = False,
        bias: bool = False,
    ) -> None: ...

class Mamba2(mamba2.Mamba2):
    """A matrix of keys and values that fades and is written by the same step."""

    @overload
    def __init__(self, config: mamba2.Config, /) -> None: ...
    @overload
    def __init__(
        self,
        *,
        dim: int,
        width: int | None = None,
        heads: int = 1,
        head_dim: int | None = None,
        value_dim: int | None = None,
        forget: Literal["none", "fixed", "step", "channel"] = "step",
        signed: bool = False,
        rank: int | None = None,
        write: Literal["add", "delta"] = "add",
        beta: float | None = None,
        tied: bool = True,
        feature: Literal["identity", "elu", "silu"] = "identity",
        unit: bool = False,
        normalise: bool = False,
        rotary: bool = False,
        shared: bool = True,
        out_norm: bool = True,
        out_gate: bool = True,
        norm_last: bool = True,
        skip: bool = True,
        bias: bool = False,
    ) -> None: ...

class DeltaNet(delta.DeltaNet):
    """A matrix of keys and values in which a write replaces what the key held."""

    @overload
    def __init__(self, config: delta.Config, /) -> None: ...
    @overload
    def __init__(
        self,
        *,
        dim: int,
        width: int | None = None,
        heads: int = 1,
        head_dim: int | None = None,
        value_dim: int | None = None,
        forget: Literal["none", "fixed", "step", "channel"] = "none",
        signed: bool = False,
        rank: int | None = None,
        write: Literal["add", "delta"] = "delta",
        beta: float | None = 1.0,
        tied: bool = False,
        feature: Literal["identity", "elu", "silu"] = "silu",
        unit: bool = True,
        normalise: bool = False,
        rotary: bool = False,
        shared: bool = False,
        out_norm: bool = True,
        out_gate: bool = False,
        norm_last: bool = False,
        skip: bool = False,
        bias: bool = False,
    ) -> None: ...

class GatedDeltaNet(gated_delta.GatedDeltaNet):
    """A matrix that fades as the input says, and in which a write replaces what the key held."""

    @overload
    def __init__(self, config: gated_delta.Config, /) -> None: ...
    @overload
    def __init__(
        self,
        *,
        dim: int,
        width: int | None = None,
        heads: int = 1,
        head_dim: int | None = None,
        value_dim: int | None = None,
        forget: Literal["none", "fixed", "step", "channel"] = "step",
        signed: bool = False,
        rank: int | None = None,
        write: Literal["add", "delta"] = "delta",
        beta: float | None = 1.0,
        tied: bool = False,
        feature: Literal["identity", "elu", "silu"] = "silu",
        unit: bool = True,
        normalise: bool = False,
        rotary: bool = False,
        shared: bool = False,
        out_norm: bool = True,
        out_gate: bool = True,
        norm_last: bool = False,
        skip: bool = False,
        bias: bool = False,
    ) -> None: ...

class TTTLinear(ttt.Ttt):
    """A layer whose state is a linear model, trained by gradient descent on its own input."""

    @overload
    def __init__(self, config: ttt.Config, /) -> None: ...
    @overload
    def __init__(
        self,
        *,
        dim: int,
        width: int | None = None,
        heads: int = 1,
        mini_batch: int | None = 16,
        rate: float = 1.0,
        norm: bool = True,
        learn_rate: bool = True,
        learn_start: bool = True,
        average: bool = True,
        out_norm: bool = True,
        rotary: bool = False,
        bias: bool = True,
    ) -> None: ...

class TTTMLP(ttt.Ttt):
    """A layer whose state is a network of two layers, trained by gradient descent on its own input."""

    @overload
    def __init__(self, config: ttt.MlpConfig, /) -> None: ...
    @overload
    def __init__(
        self,
        *,
        dim: int,
        width: int | None = None,
        heads: int = 1,
        mini_batch: int | None = 16,
        rate: float = 0.1,
        norm: bool = True,
        learn_rate: bool = True,
        learn_start: bool = True,
        average: bool = True,
        out_norm: bool = True,
        rotary: bool = False,
        bias: bool = True,
        expand: int = 4,
    ) -> None: ...

class SoftAlign(soft_align.SoftAlign):
    """A recurrent cell with attention to a source."""

    @overload
    def __init__(self, config: soft_align.Config, /) -> None: ...
    @overload
    def __init__(
        self,
        *,
        dim: int,
        width: int | None = None,
        memory_dim: int | None = None,
        cell: Literal["gru", "lstm", "rnn"] = "gru",
        num_layers: int = 1,
        order: Literal["align-first", "cell-first"] = "align-first",
        score: Literal["scaled", "dot", "additive", "general"] = "additive",
        alignment: Literal["softmax", "hard", "local"] = "softmax",
        window: int | None = None,
        align_dim: int | None = None,
        feed: bool = True,
        dropout: float = 0.0,
    ) -> None: ...

class CrossAttention(cross_attention.CrossAttention):
    """Multi-head attention from the decoder to a source."""

    @overload
    def __init__(self, config: cross_attention.Config, /) -> None: ...
    @overload
    def __init__(
        self,
        *,
        dim: int,
        width: int | None = None,
        heads: int = 1,
        kv_heads: int | None = None,
        head_dim: int | None = None,
        score: Literal["scaled", "dot", "additive", "general"] = "scaled",
        alignment: Literal["softmax", "hard", "local"] = "softmax",
        window: int | None = None,
        project: bool = True,
        bias: bool = False,
        dropout: float = 0.0,
        memory_dim: int | None = None,
    ) -> None: ...

class Position(position.Position):
    """Adds to each input the vector of its position."""

    @overload
    def __init__(self, config: position.Config, /) -> None: ...
    @overload
    def __init__(
        self,
        *,
        dim: int,
        kind: Literal["sinusoid", "learned"] = "sinusoid",
        max_positions: int = 1024,
    ) -> None: ...

class Norm(norm.Norm):
    """LayerNorm, RMSNorm, BatchNorm or none, position by position."""

    @overload
    def __init__(self, config: norm.Config, /) -> None: ...
    @overload
    def __init__(self, *, dim: int, kind: Literal["layer", "rms", "batch", "none"] = "layer") -> None: ...

class FeedForward(mlp.FeedForward):
    """Two layers, the same at every position."""

    @overload
    def __init__(self, config: mlp.Config, /) -> None: ...
    @overload
    def __init__(
        self,
        *,
        dim: int,
        hidden: int | None = None,
        activation: Literal["relu", "gelu", "gelu_tanh", "swiglu"] = "gelu",
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None: ...

class Dropout(dropout.Dropout):
    """Zeroes features at random in training."""

    @overload
    def __init__(self, config: dropout.Config, /) -> None: ...
    @overload
    def __init__(self, *, dim: int, dropout: float = 0.1, variational: bool = False) -> None: ...

class Fixed(fixed.Fixed):
    """A recurrent layer that starts from the source's summary. Its state is the cell's."""

    @overload
    def __init__(self, config: fixed.Config, /) -> None: ...
    @overload
    def __init__(
        self,
        *,
        dim: int,
        width: int | None = None,
        memory_dim: int | None = None,
        cell: Literal["gru", "lstm", "rnn"] = "gru",
        num_layers: int = 1,
        start: Literal["state", "last", "mean"] = "mean",
        dropout: float = 0.0,
    ) -> None: ...

class Contextual(context.Contextual):
    """A recurrent layer with one constant input beside the changing one."""

    @overload
    def __init__(self, config: context.Config, /) -> None: ...
    @overload
    def __init__(
        self,
        *,
        dim: int,
        width: int | None = None,
        memory_dim: int | None = None,
        cell: Literal["gru", "lstm", "rnn"] = "gru",
        num_layers: int = 1,
        gist: Literal["last", "mean"] = "mean",
        dropout: float = 0.0,
    ) -> None: ...

class GatedConv(gated_conv.GatedConv):
    """A causal convolution with a gate."""

    @overload
    def __init__(self, config: gated_conv.Config, /) -> None: ...
    @overload
    def __init__(self, *, dim: int, width: int | None = None, kernel: int = 3, dilation: int = 1) -> None: ...

class TCNBlock(tcn.TCNBlock):
    """Two causal convolutions around a shortcut."""

    @overload
    def __init__(self, config: tcn.Config, /) -> None: ...
    @overload
    def __init__(
        self,
        *,
        dim: int,
        width: int | None = None,
        kernel: int = 3,
        dilation: int = 1,
        dropout: float = 0.0,
        start: Literal["torch", "he"] = "torch",
    ) -> None: ...

class Matrix(matrix.Matrix):
    """A memory of keys and values that is one matrix a head."""

    @overload
    def __init__(self, config: matrix.Config, /) -> None: ...
    @overload
    def __init__(
        self,
        *,
        dim: int,
        width: int | None = None,
        heads: int = 1,
        head_dim: int | None = None,
        value_dim: int | None = None,
        forget: Literal["none", "fixed", "step", "channel"] = "none",
        signed: bool = False,
        rank: int | None = None,
        write: Literal["add", "delta"] = "add",
        beta: float | None = None,
        tied: bool = False,
        feature: Literal["identity", "elu", "silu"] = "identity",
        unit: bool = False,
        normalise: bool = False,
        rotary: bool = False,
        shared: bool = False,
        out_norm: bool = False,
        out_gate: bool = False,
        norm_last: bool = False,
        skip: bool = False,
        bias: bool = False,
    ) -> None: ...

class TransformerBlock(transformer.TransformerBlock):
    """A causal block, or with `cross` a decoder block, as a stack of residual sublayers."""

    @overload
    def __init__(self, config: transformer.Config, /) -> None: ...
    @overload
    def __init__(
        self,
        *,
        dim: int,
        attention: attention.Config | None = None,
        cross: cross_attention.Config | None = None,
        heads: int = 1,
        hidden: int | None = None,
        activation: Literal["relu", "gelu", "gelu_tanh", "swiglu"] = "gelu",
        norm: Literal["layer", "rms", "batch", "none"] = "layer",
        order: Literal["pre", "post"] = "pre",
        bias: bool = True,
        dropout: float = 0.0,
        inner_dropout: float | None = None,
    ) -> None: ...

class Stack(combine.Stack):
    """Layers one above the other."""

    @overload
    def __init__(self, config: combine.StackConfig, /) -> None: ...
    @overload
    def __init__(self, *, dim: int, layers: tuple[contract.Config, ...]) -> None: ...

class Residual(combine.Residual):
    """A layer with a residual connection and a norm. Its state is the layer's."""

    @overload
    def __init__(self, config: combine.ResidualConfig, /) -> None: ...
    @overload
    def __init__(
        self,
        *,
        dim: int,
        layer: contract.Config,
        norm: Literal["layer", "rms", "batch", "none"] = "layer",
        order: Literal["pre", "post"] = "pre",
        dropout: float = 0.0,
    ) -> None: ...

class Forward(encoder.Forward):
    """A layer run over the source from left to right."""

    @overload
    def __init__(self, config: encoder.ForwardConfig, /) -> None: ...
    @overload
    def __init__(self, *, dim: int, layer: contract.Config) -> None: ...

class Bidirectional(encoder.Bidirectional):
    """A forward and a backward layer, their outputs concatenated."""

    @overload
    def __init__(self, config: encoder.BidirectionalConfig, /) -> None: ...
    @overload
    def __init__(self, *, dim: int, layer: contract.Config, num_layers: int = 1, dropout: float = 0.0) -> None: ...

class Convolution(encoder.Convolution):
    """Blocks of gated convolutions with residual connections."""

    @overload
    def __init__(self, config: encoder.ConvolutionConfig, /) -> None: ...
    @overload
    def __init__(
        self,
        *,
        dim: int,
        num_layers: int = 1,
        kernel: int = 3,
        positions: Literal["none", "sinusoid", "learned"] = "sinusoid",
        max_positions: int = 1024,
        dropout: float = 0.0,
    ) -> None: ...

class FullAttention(encoder.FullAttention):
    """Self-attention between all positions."""

    @overload
    def __init__(self, config: encoder.AttentionConfig, /) -> None: ...
    @overload
    def __init__(
        self,
        *,
        dim: int,
        width: int | None = None,
        heads: int = 1,
        kv_heads: int | None = None,
        head_dim: int | None = None,
        score: Literal["scaled", "dot", "additive", "general"] = "scaled",
        alignment: Literal["softmax", "hard", "local"] = "softmax",
        window: int | None = None,
        project: bool = True,
        bias: bool = False,
        dropout: float = 0.0,
        positions: Literal["none", "sinusoid", "learned", "rotary", "alibi"] = "none",
        max_positions: int = 1024,
    ) -> None: ...

class TransformerEncoder(encoder.TransformerEncoder):
    """Blocks of full attention and feed-forward networks, each with a residual connection."""

    @overload
    def __init__(self, config: encoder.TransformerConfig, /) -> None: ...
    @overload
    def __init__(
        self,
        *,
        dim: int,
        num_layers: int = 1,
        heads: int = 1,
        hidden: int | None = None,
        activation: Literal["relu", "gelu", "gelu_tanh", "swiglu"] = "relu",
        norm: Literal["layer", "rms", "batch", "none"] = "layer",
        order: Literal["pre", "post"] = "pre",
        positions: Literal["none", "sinusoid", "learned", "rotary", "alibi"] = "sinusoid",
        max_positions: int = 1024,
        bias: bool = True,
        dropout: float = 0.0,
        inner_dropout: float | None = None,
    ) -> None: ...

LAYERS: dict[str, type[contract.Layer[Any]]]
ENCODERS: dict[str, type[contract.Encoder]]
