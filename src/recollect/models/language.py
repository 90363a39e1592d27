"""A language model: tokens in, logits for the next token out, any layer of the lineage between.

STATE   that of its layers
UPDATE  theirs
READ    logits = W·(norm of the top layer's output) + b, W tied to the embedding or not, b there or not

`model` names the layer by its place in history. Plain models are stacks, as in the classic papers; residual
ones put each layer, and a feed-forward network after it, around a shortcut.
"""

from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn.functional import dropout

from ..core.contract import ContractError, Cost, Memory
from ..layers import combine
from ..layers.loss import Reduction, linear_cross_entropy
from .body import KINDS, BodyConfig, initialise
from .tokens import TokenModel

__all__ = ["KINDS", "Config", "LanguageModel", "width_for"]


@dataclass(frozen=True, kw_only=True)
class Config(BodyConfig):
    """`embed` is the width of the embedding (default: width); where it differs, a plain stack begins and ends there.

    `tie` uses the embedding as the output's weights too; `head_bias` lets each token have a bias of its own there;
    `word_dropout` leaves whole tokens of the embedding out.
    """

    vocab: int
    embed: int | None = None
    tie: bool = True
    head_bias: bool = True
    word_dropout: float = 0.0

    def build(self) -> "LanguageModel":
        return LanguageModel(self)

    def body(self) -> combine.StackConfig:
        """The layers between embedding and logits."""
        embed = self.embed or self.width
        return self.stack(embed, embed if self.tie else None)


def width_for(config: Config, params: int) -> Config:
    """The same model at the width whose number of parameters is nearest to `params`."""
    return config.sized(params, f"{config.model} with a vocabulary of {config.vocab:,}")


class LanguageModel(TokenModel[tuple]):
    """Next-token prediction by a stack of any layers."""

    noun = "language model"

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config, self.vocab = config, config.vocab
        self.body = config.body().build()
        embed = self.body.dim
        if config.tie and self.body.width != embed:
            raise ContractError(
                f"language: tied weights need the top width {self.body.width} to be that of the embedding, {embed}; "
                "set tie=False"
            )
        self.dim, self.width = 1, config.vocab
        self.embedding = nn.Embedding(config.vocab, embed)
        self.head = nn.Linear(self.body.width, config.vocab, bias=config.head_bias)
        self.start()

    def start(self) -> None:
        """Initial weights: small normal ones in residual models (GPT-2's), torch's own in recurrent stacks."""
        scale = 0.02 if self.config.residual else self.body.width**-0.5
        nn.init.normal_(self.embedding.weight, std=scale)
        if self.config.head_bias:
            nn.init.zeros_(self.head.bias)
        if self.config.tie:
            self.head.weight = self.embedding.weight
        initialise(self.body, self.config)

    def initial_state(
        self, batch: int, memory: Memory | None = None, like: Tensor | None = None, capacity: int | None = None
    ) -> tuple:
        return self.body.initial_state(batch, memory, like, capacity)

    def forward(
        self,
        x: Tensor,
        state: tuple | None = None,
        memory: Memory | None = None,
        *,
        targets: Tensor | None = None,
        smoothing: float = 0.0,
        reduction: Reduction = "none",
    ) -> tuple[Tensor, tuple]:
        """x: B T tokens → logits B T V; with `targets`, their losses in place of logits, which are not kept."""
        y, state = self.hidden(x, state, memory)
        if targets is None:
            return self.head(y), state
        losses = linear_cross_entropy(
            y.flatten(0, 1),
            self.head.weight,
            self.head.bias,
            targets.flatten(),
            smoothing=smoothing,
            reduction=reduction,
        )
        return losses if reduction == "mean" else losses.view_as(targets), state

    def hidden(self, x: Tensor, state: tuple | None = None, memory: Memory | None = None) -> tuple[Tensor, tuple]:
        """What the logits are read from: B T W."""
        return self.body(self.embed(x), self.initial_state(x.shape[0], memory) if state is None else state)

    def nll(
        self,
        x: Tensor,
        targets: Tensor,
        state: tuple | None = None,
        *,
        smoothing: float = 0.0,
        reduction: Reduction = "none",
    ) -> tuple[Tensor, tuple]:
        """−log p(target) in nats, B T or their mean, and the state; with label smoothing, the loss to train on."""
        return self(x, state, targets=targets, smoothing=smoothing, reduction=reduction)

    def embed(self, x: Tensor) -> Tensor:
        if not (self.training and self.config.word_dropout):
            return self.embedding(x)
        rows = self.embedding.weight.new_ones(self.config.vocab, 1)
        return nn.functional.embedding(x, self.embedding.weight * dropout(rows, self.config.word_dropout))

    def unroll(self, x: Tensor, state: tuple) -> tuple[Tensor, tuple]:
        y, state = self.body.unroll(self.embed(x), state)
        return self.head(y), state

    def ragged(self, x: Tensor, lengths: Tensor, state: tuple) -> tuple[Tensor, tuple]:
        y, state = self.body.ragged(self.embed(x), lengths, state)
        return self.head(y), state

    def explain(self, state: tuple, x: Tensor) -> dict[str, Tensor]:
        return self.body.explain(state, self.embed(x))

    def cost(self, batch: int, steps: int, source: int = 0) -> Cost:
        body = self.body.cost(batch, steps, source)
        return Cost(body.flops + 2 * batch * steps * self.head.weight.numel(), body.state_bytes)
