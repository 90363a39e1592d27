"""The layers and encoders as classes, each constructed with the settings that `build` takes: `LSTM(dim=8, width=16)`.

Their keyword arguments, for editors and type checkers, stand in `classes.pyi`, which `python -m tools.layers` writes
from the settings of the layers.
"""

from . import ttt
from .attention import Attention
from .combine import Residual, Stack
from .context import Contextual
from .conv import CausalConv
from .cross_attention import CrossAttention
from .delta import DeltaNet
from .dropout import Dropout
from .encoder import Bidirectional, Convolution, Forward, FullAttention, TransformerEncoder
from .fixed import Fixed
from .gated_conv import GatedConv
from .gated_delta import GatedDeltaNet
from .gla import GLA
from .gru import GRU
from .keywords import constructed_from
from .linear_attention import LinearAttention
from .lstm import LSTM
from .mamba2 import Mamba2
from .matrix import Matrix
from .mingru import MinGRU
from .minlstm import MinLSTM
from .mlp import FeedForward
from .norm import Norm
from .position import Position
from .retention import Retention
from .rnn import RNN
from .soft_align import SoftAlign
from .tcn import TCNBlock
from .transformer import TransformerBlock
from .window import Window


@constructed_from(ttt.Config)
class TTTLinear(ttt.Ttt):
    """A layer whose state is a linear model, trained by gradient descent on its own input."""


@constructed_from(ttt.MlpConfig)
class TTTMLP(ttt.Ttt):
    """A layer whose state is a network of two layers, trained by gradient descent on its own input."""


LAYERS = {  # by the name that `build` knows
    "window": Window,
    "rnn": RNN,
    "lstm": LSTM,
    "gru": GRU,
    "mingru": MinGRU,
    "minlstm": MinLSTM,
    "conv": CausalConv,
    "attention": Attention,
    "linear-attention": LinearAttention,
    "retention": Retention,
    "gla": GLA,
    "mamba2": Mamba2,
    "delta": DeltaNet,
    "gated-delta": GatedDeltaNet,
    "ttt-linear": TTTLinear,
    "ttt-mlp": TTTMLP,
    "soft-align": SoftAlign,
    "cross-attention": CrossAttention,
    "position": Position,
    "norm": Norm,
    "feed-forward": FeedForward,
    "dropout": Dropout,
    "fixed": Fixed,
    "context": Contextual,
    "gated-conv": GatedConv,
    "tcn-block": TCNBlock,
    "matrix": Matrix,
    "transformer-block": TransformerBlock,
    "stack": Stack,
    "residual": Residual,
}
ENCODERS = {  # by the name that `build_encoder` knows
    "forward": Forward,
    "bidirectional": Bidirectional,
    "convolution": Convolution,
    "attention": FullAttention,
    "transformer": TransformerEncoder,
}
