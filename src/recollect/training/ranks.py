"""The processes that train one run together, each a rank: what they share, what they agree on, what they sum.

A step reads the batch that one process would read, and each rank takes its rows of it, so that batch size, learning
rate, seed, order of data and budgets mean the same for any number of ranks. A loss is the mean over the terms of a
rank's own rows; it counts by its share of the terms of all. Dropout draws other masks than one process would.
"""

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import deepcopy
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ..core import state as states
from ..core.errors import RecollectError
from ..core.task import Loss

# of `--ranks`; torchrun has names of its own
RANK, SIZE, STORE = "RECOLLECT_RANK", "RECOLLECT_RANKS", "RECOLLECT_STORE"
LOST = 75  # the exit code of a rank that others have left, where `--ranks` says which
PATIENCE = timedelta(minutes=float(os.environ.get("RECOLLECT_RANKS_MINUTES", 5)))  # for ranks that do not come
LONG = timedelta(days=7)  # for the main rank while it measures or prepares data


class RanksError(RecollectError):
    """Ranks that cannot train together; the message is one line."""


class RankLost(RecollectError):
    """A rank has ended while others were at work."""


class Ranks:
    """The ranks of a run; without a process group one process, alone."""

    def __init__(self, rank: int = 0, size: int = 1, *, shard: bool = False) -> None:
        self.rank, self.size, self.shard = rank, size, shard
        self.copies: Any = None  # of gradients: torch's wrapper, which sums them as they come
        self.group: Any = None  # in which ranks wait for each other as long as it takes

    @property
    def alone(self) -> bool:
        return self.size == 1

    @property
    def main(self) -> bool:
        """Whether this is the rank that writes the run folder and measures."""
        return self.rank == 0

    # Before training

    def check_equal(self, facts: dict[str, str]) -> None:
        """Refuse ranks that differ in what a run depends on, such as versions, settings or data."""
        for name, here in facts.items():
            found = self.gather(here)
            other = next((rank for rank, value in enumerate(found) if value != found[0]), None)
            if other is not None:
                raise RanksError(
                    f"ranks: expected the same {name} on all {self.size}, found {found[0]} on rank 0 and "
                    f"{found[other]} on rank {other}; give all the same"
                )

    @contextmanager
    def main_first(self) -> Iterator[None]:
        """What is cached on disk is made by the main rank; the others find it there."""
        if not self.main:
            self.wait()
        yield
        if self.main:
            self.wait()

    def wrap(self, model: nn.Module, objective: Callable[[nn.Module], nn.Module]) -> tuple[nn.Module, nn.Module]:
        """The model whose weights are trained, and what gives its loss and sums its gradients over ranks.

        Sharded, each rank trains a part of every weight, in a copy: `model` stays whole, to be measured.
        """
        if self.alone:
            return model, objective(model)
        self._refuse_batch_norm(model)
        if self.shard:
            self._refuse_scalars(model)
            trained = deepcopy(model)
            return trained, shard_weights(objective(trained), self.size)
        self.copies = nn.parallel.DistributedDataParallel(objective(model), find_unused_parameters=True)
        return model, self.copies

    def _refuse_batch_norm(self, model: nn.Module) -> None:
        kind = nn.modules.batchnorm._BatchNorm
        name = next((name for name, part in model.named_modules() if isinstance(part, kind)), None)
        if name is not None:
            raise RanksError(
                f"ranks: expected norms of single rows, found BatchNorm in {name}, which would see the rows of one "
                "rank alone; use norm=layer or norm=rms, or leave --ranks out"
            )

    def _refuse_scalars(self, model: nn.Module) -> None:
        name = next((name for name, weight in model.named_parameters() if not weight.dim()), None)
        if name is not None:
            raise RanksError(
                f"--shard: expected weights with rows to divide, found the number {name}; leave --shard out"
            )

    # In a step

    def share(self, batch: Any) -> Any:
        """This rank's rows of a batch, and their share of its tokens: over ranks the shares add up to all of them."""
        if self.alone:
            return batch
        count = states.batch(batch) or 0
        first, end = self.rows(count)
        own = states.map(lambda tensor: tensor[first:end] if tensor.dim() else tensor, batch)
        if not hasattr(own, "tokens"):
            return own
        return own._replace(tokens=end * batch.tokens // count - first * batch.tokens // count)

    def rows(self, count: int) -> tuple[int, int]:
        """The rows of this rank out of so many, as a slice."""
        if count < self.size:
            raise RanksError(
                f"ranks: expected batches of at least {self.size} rows, one for each rank, found {count}; raise "
                "--batch or use fewer --ranks"
            )
        return self.rank * count // self.size, (self.rank + 1) * count // self.size

    def weigh(self, loss: Loss) -> tuple[Tensor, Tensor]:
        """The loss as this rank goes back through it, and its part of the loss of the whole batch."""
        if self.alone:
            return loss.value, loss.value.detach()
        own = torch.as_tensor(loss.tokens if loss.terms is None else loss.terms, device=loss.value.device).double()
        every = own.clone()
        dist.all_reduce(every)
        part = loss.value * (own / every.clamp(min=1)).to(loss.value.dtype)
        return part * self.size, part.detach()  # torch divides the sum of gradients by the number of ranks

    def gradients(self, *, last: bool) -> AbstractContextManager[Any]:
        """Around a forward and a backward pass: gradients are summed over ranks after the last of a step."""
        return nullcontext() if self.copies is None or last else self.copies.no_sync()

    def seed(self, *numbers: int) -> None:
        """Let what is drawn in a step depend on its number and the rank, not on what was drawn before."""
        if not self.alone:
            mixed = 0
            for number in (*numbers, self.rank):
                mixed = (mixed * 1_000_003 + number + 1) % 2**63
            torch.manual_seed(mixed)

    # Between ranks

    def sum(self, numbers: Sequence[float]) -> list[float]:
        """The sums over ranks, the same on each."""
        if self.alone:
            return list(numbers)
        found = torch.tensor(numbers, dtype=torch.float64)
        dist.all_reduce(found, group=self.group)
        return found.tolist()

    def send(self, content: Any = None) -> Any:
        """What the main rank gives, on every rank; as JSON."""
        return content if self.alone else self.gather(content if self.main else None)[0]

    def gather(self, content: Any) -> list[Any]:
        """What each rank gives, on every rank; as JSON, since nothing is unpickled here."""
        if self.alone:
            return [content]
        own = torch.frombuffer(bytearray(json.dumps(content).encode()), dtype=torch.uint8)
        sizes = torch.zeros(self.size, dtype=torch.int64)
        sizes[self.rank] = len(own)
        dist.all_reduce(sizes, group=self.group)
        padded = torch.cat([own, own.new_zeros(int(sizes.max()) - len(own))])
        found = [torch.empty_like(padded) for _ in range(self.size)]
        dist.all_gather(found, padded, group=self.group)
        return [json.loads(bytes(row[:size].tolist())) for row, size in zip(found, sizes.tolist(), strict=True)]

    def gather_rows(self, carry: Any) -> Any:
        """The carried state of all rows, in their order, on every rank."""
        return carry if self.alone or carry is None else states.map(self._gather_tensor, carry)

    def _gather_tensor(self, tensor: Tensor) -> Tensor:
        sizes = torch.zeros(self.size, dtype=torch.int64)
        sizes[self.rank] = len(tensor)
        dist.all_reduce(sizes, group=self.group)
        padded = tensor.new_zeros(int(sizes.max()), *tensor.shape[1:])
        padded[: len(tensor)] = tensor
        found = [torch.empty_like(padded) for _ in range(self.size)]
        dist.all_gather(found, padded)
        return torch.cat([part[:size] for part, size in zip(found, sizes.tolist(), strict=True)])

    def wait(self) -> None:
        if not self.alone:
            self.sum([0.0])


def join(device: str, *, shard: bool = False) -> tuple[Ranks, str]:
    """The ranks that this process was started among (by `--ranks` or by torchrun), and its own device."""
    own = {name: os.environ.get(name) for name in (RANK, SIZE, STORE)}
    if own[SIZE] is not None:
        rank, size, local = int(own[RANK] or 0), int(own[SIZE] or 1), int(own[RANK] or 0)
        threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
        place: dict[str, Any] = {"store": None}
    elif "TORCHELASTIC_RUN_ID" in os.environ:
        rank, size, local = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
        place = {"init_method": "env://"}
    else:
        if shard:
            raise RanksError(
                "--shard: expected several ranks, found one process; add --ranks N or start it by torchrun"
            )
        return Ranks(), device
    if size == 1 and not shard:
        return Ranks(), device
    if not dist.is_available():
        raise RanksError("ranks: expected a torch with torch.distributed, found one without; leave --ranks out")
    if device.startswith("cuda"):
        if local >= torch.cuda.device_count():
            raise RanksError(
                f"ranks: expected a GPU for each rank of a machine, found {torch.cuda.device_count()}; "
                "use fewer --ranks, or --device cpu"
            )
        device = f"cuda:{local}"
        torch.cuda.set_device(local)
    try:
        if "store" in place:
            place["store"] = dist.FileStore(own[STORE] or "", size)  # pyright: ignore[reportPrivateImportUsage]
        kind = "cpu:gloo,cuda:nccl" if device.startswith("cuda") else "gloo"
        dist.init_process_group(kind, rank=rank, world_size=size, timeout=PATIENCE, **place)
        ranks = Ranks(rank, size, shard=shard)
        ranks.group = dist.new_group(backend="gloo", timeout=LONG)
    except (RuntimeError, ValueError, OSError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise RanksError(
            f"ranks: expected {size} ranks within {PATIENCE.total_seconds() / 60:g} minutes, found fewer ({reason}); "
            "see that all are started and reach each other"
        ) from error
    return ranks, device


def _end_with(parent: int) -> None:
    """End this process once its parent is gone, or it would hold the run's folder and train on unseen."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(LOST)


@contextmanager
def joined(device: str, *, shard: bool = False) -> Iterator[tuple[Ranks, str]]:
    """The ranks of this process, which leaves them at the end: once all have come there, or with an error."""
    ranks, own = join(device, shard=shard)
    try:
        yield ranks, own
        ranks.wait()
    except Exception as error:
        if ranks.alone or not is_loss(error):
            raise
        raise RankLost(
            f"ranks: expected {ranks.size} at work, found that one has ended; the last checkpoint is kept; go on "
            "with --resume"
        ) from error
    finally:
        if dist.is_available() and dist.is_initialized():
            dist.destroy_process_group()


def is_loss(error: BaseException) -> bool:
    """Whether a collective operation failed, as it does where another rank has ended."""
    return isinstance(error, dist.DistError) or (isinstance(error, RuntimeError) and "gloo" in str(error).lower())


def restarts() -> int:
    """How often torchrun has started these ranks anew."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0))


def shard_weights(objective: nn.Module, size: int) -> nn.Module:
    """Each rank holds a part of every weight: the layers of a stack by themselves, then all that is left."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

    device = next(objective.parameters()).device.type
    mesh = init_device_mesh(device, (size,), mesh_dim_names=("ranks",))
    tied = tied_modules(objective)
    for part in reversed(list(objective.modules())):  # what lies inside first
        for layer in getattr(part, "called", lambda: ())():
            if any(True for _ in layer.parameters()) and tied.isdisjoint(layer.modules()):
                fully_shard(layer, mesh=mesh)
                for name in METHODS:
                    if hasattr(layer, name):
                        register_fsdp_forward_method(layer, name)
    fully_shard(objective, mesh=mesh)
    return objective


METHODS = ("initial_state", "ragged", "unroll", "update", "read", "explain")  # of layers, which read weights too


def tied_modules(model: nn.Module) -> set[nn.Module]:
    """Modules that hold a weight that another holds too; sharded apart from it, it would be two."""
    owners: dict[int, list[nn.Module]] = {}
    for part in model.modules():
        for weight in part.parameters(recurse=False):
            owners.setdefault(id(weight), []).append(part)
    return {part for parts in owners.values() if len(parts) > 1 for part in parts}
