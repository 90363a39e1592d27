"""The training loop of all tasks; it uses tasks through `core.task` and models through their call alone."""

import math
import signal
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from types import FrameType
from typing import Any

import torch
from torch import nn

from ..core import state as states
from ..core.errors import RecollectError
from ..core.limits import bounded_memory, is_out_of_memory
from ..core.task import Loss, Task
from . import checkpoint
from .budget import Spent
from .folder import RunFolder
from .graph import Captured, Compiled
from .optim import Average, Schedule, Swapped, build_optimizer, clip
from .progress import Progress, peak_bytes
from .ranks import Ranks
from .settings import Settings
from .sharded import Writer, gather_weights, local


class TrainingStopped(RecollectError):
    """Training cannot go on; the message says why and what to do. The last good checkpoint is kept."""


class Interrupted(RecollectError):
    """The user stopped the run; it was saved."""


class Objective(nn.Module):
    """A model and its loss as one forward pass: whatever the loss calls of the model, torch.distributed sees it."""

    def __init__(self, model: nn.Module, loss: Any) -> None:
        super().__init__()
        self.model = model
        self.loss = loss  # (model, batch, carry) → Loss

    def forward(self, batch: Any, carry: Any) -> Loss:
        return self.loss(self.model, batch, carry)


class Trainer:
    """Trains a model on a task into a run folder."""

    def __init__(
        self,
        task: Task,
        model: nn.Module,
        settings: Settings,
        folder: RunFolder | None,
        device: torch.device,
        progress: Progress | None = None,
        ranks: Ranks | None = None,
    ) -> None:
        self.task, self.settings, self.folder, self.device = task, settings, folder, device
        self.ranks = ranks or Ranks()
        self.progress = progress or Progress(quiet=True)
        if settings.exact:
            torch.use_deterministic_algorithms(True)
        torch.manual_seed(settings.seed)
        self.model = model.to(device)  # whole, as it is measured and written; `trained` may hold parts of it
        loss_of = Compiled(self._loss, task.repeats) if settings.compile else self._loss
        self.trained, self.objective = self.ranks.wrap(self.model, lambda model: Objective(model, loss_of))
        self.optimizer = build_optimizer(self.trained, settings)
        self.schedule = Schedule(settings)
        averaged = settings.ema is not None or settings.optimizer == "asgd"
        self.average = Average(self.trained, settings.ema) if averaged else None
        self.writer = Writer()
        self.spent = Spent()
        self.carry: Any = None
        self.best = math.inf
        self.since_best = 0
        self.evaluated = 0  # the step of the last evaluation
        self.stop: str | None = None
        self.signalled = False  # on this rank; all stop after the same step
        self.flops_by_shape: dict[tuple[int, ...], float] = {}

    def resume(self) -> None:
        """Go on from the last checkpoint, as if nothing had happened."""
        assert self.folder is not None
        note, carry = checkpoint.load(
            self.folder.last,
            model=self.trained,
            optimizer=self.optimizer,
            schedule=self.schedule,
            average=self.average,
            whole=self.model,
        )
        self.carry = None if carry is None else self.ranks.share(carry)
        self.spent = note.spent
        self.best, self.since_best, self.evaluated = note.best, note.since_best, note.evaluated
        self._check_patience()
        if self.ranks.main:
            self.folder.cut_metrics(self.spent.step, self.evaluated)

    def save(self) -> None:
        """Write the checkpoint of this step: the main rank a file, the ranks of a sharded run their parts of one."""
        self._tick()
        carry = self.ranks.gather_rows(self.carry)
        if self.folder is None or not (self.ranks.main or self.ranks.shard):
            return
        self._check_weights()
        tensors, note = checkpoint.collect(
            model=self.trained,
            optimizer=self.optimizer,
            schedule=self.schedule,
            average=self.average,
            carry=carry,
            note={
                "spent": self.spent.to_json(),
                "best": self.best,
                "since_best": self.since_best,
                "evaluated": self.evaluated,
            },
        )
        if self.ranks.shard:
            self.writer.write(self.folder.last_file.parent, tensors, note, main=self.ranks.main)
        else:
            checkpoint.write_tensors(self.folder.last_file, tensors, note)
            self.folder.drop_sharded()

    def run(self) -> dict[str, Any]:
        """Train until a budget is spent. Returns the last evaluation, of the best weights."""
        handlers = self._catch_signals()
        try:
            with bounded_memory() if self.device.type == "cpu" else nullcontext():
                self._train()
            if self.stop == "signal":  # caught until it is saved: `--ranks` may pass on what the terminal sent already
                self._save_and_leave()
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            first = next(iter(str(error).splitlines()), type(error).__name__)
            raise TrainingStopped(
                f"step {self.spent.step}: out of memory on {self.device} ({first}); "
                "lower --batch, the context or --width, or set accumulate or precision=bfloat16"
            ) from error
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
        return self._finish()

    def _save_and_leave(self) -> None:
        self.save()
        self.writer.finish(main=self.ranks.main)
        where = f"--resume --out {self.folder.path}" if self.folder else "no run folder was given"
        raise Interrupted(f"stopped at step {self.spent.step:,} and saved; go on with {where}")

    def _train(self) -> None:
        settings, spent = self.settings, self.spent
        self.trained.train()
        batches = self.task.batches("train", settings.seed, start=spent.step * settings.accumulate)
        step = self._step()
        while (share := spent.share(settings)) < 1 and self.stop is None:
            self.ranks.seed(settings.seed, spent.step)
            rate = self.schedule.rate(spent.step, share)
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            self.optimizer.zero_grad()
            total, tokens, flops = 0.0, 0, 0.0
            for number in range(settings.accumulate):
                batch = next(batches)
                parts = self.task.backward_parts(self.ranks.share(batch))
                for place, part in enumerate(parts):
                    last = number == settings.accumulate - 1 and place == len(parts) - 1
                    loss = step(part, self.carry, last)
                    self.carry = None if loss.carry is None else states.detach(loss.carry)
                    total = total + loss.value.detach() / settings.accumulate
                    tokens += loss.tokens
                flops += 3 * self._flops(batch)  # a backward pass costs two forward ones
            norm = clip(self.trained, settings)
            log = spent.step % settings.log_every == 0
            watched = log or self.device.type == "cpu"  # on a GPU this would synchronise at every step
            total, tokens = self._agree(total, tokens, watched)
            if watched:
                self._check_finite(total, norm)
            self.optimizer.step()
            if self.average is not None:
                self.average.update(self.trained)
            spent.step += 1
            spent.tokens += tokens
            spent.flops += flops
            if log:
                self._log(float(total), rate, float(norm))
            if spent.step % settings.eval_every == 0:
                self._evaluate()
            if spent.step % settings.save_every == 0:
                self.save()
        self._agree(0.0, 0, watched=False)  # a signal may have come after the last step

    def _agree(self, total: Any, tokens: int, watched: bool) -> tuple[Any, int]:
        """Loss and tokens of a step over all ranks, which also stop together and count the main rank's seconds."""
        self.spent.tick()
        if self.ranks.alone:
            self.stop = "signal" if self.signalled else self.stop
            return total, tokens
        seconds = self.spent.seconds if self.ranks.main else 0.0
        loss = float(total) if watched else 0.0
        loss, every, seconds, stops = self.ranks.sum([loss, tokens, seconds, self.signalled])
        self.spent.seconds = seconds
        self.stop = "signal" if stops else self.stop
        return loss if watched else total, int(every)

    def _loss(self, model: nn.Module, batch: Any, carry: Any) -> Loss:
        mixed = self.settings.precision == "bfloat16"
        cache = not self.settings.graph  # a graph must not hold weights that were cast before it
        kind = self.device.type
        with torch.autocast(kind, torch.bfloat16, cache_enabled=cache) if mixed else nullcontext():
            return self.task.loss(model, batch, carry)

    def _step(self) -> Callable[[Any, Any, bool], Loss]:
        """A function that leaves the gradients of a batch behind: as it is, or from a CUDA graph."""

        def step(batch: Any, carry: Any, last: bool = True) -> Loss:
            with self.ranks.gradients(last=last):
                loss = self.objective(batch, carry)
                value, share = self.ranks.weigh(loss)
                (value / self.settings.accumulate).backward()
            return replace(loss, value=share)

        if not self.settings.graph:
            return step
        if not self.ranks.alone:
            raise TrainingStopped("graph: expected one rank for graph=true, found several; use compile=true there")
        if self.device.type != "cuda":
            raise TrainingStopped("graph: expected a CUDA device for graph=true, found " + self.device.type)
        if not self.task.repeats:
            raise TrainingStopped(f"graph: expected steps that are all alike, found the task {self.task.name} as set")
        captured = Captured(step, [p for p in self.model.parameters() if p.requires_grad])
        return lambda batch, carry, last: captured(batch, carry)

    def _flops(self, batch: Any) -> float:
        key = self.task.shape(batch)
        if key not in self.flops_by_shape:
            self.flops_by_shape[key] = float(self.task.flops(self.model, *key))
        return self.flops_by_shape[key]

    def _check_finite(self, loss: Any, norm: Any) -> None:
        if math.isfinite(float(loss)) and math.isfinite(float(norm)):
            return
        weights = [(name, local(p), p.grad) for name, p in self.trained.named_parameters()]
        bad = [name for name, _, grad in weights if grad is not None and not local(grad).isfinite().all()]
        worse = [name for name, own, _ in weights if not own.isfinite().all()]
        where = "in the loss"
        if bad or worse:
            where = f"in the weights of {worse[0]}" if worse else f"in the gradient of {bad[0]}"
        raise TrainingStopped(
            f"step {self.spent.step}: loss {float(loss)}, gradient norm {float(norm)}: not finite, {where}, batch "
            f"{self.spent.step * self.settings.accumulate} of seed {self.settings.seed}; the last good checkpoint is "
            "kept; lower --lr, or set clip"
        )

    def _check_weights(self) -> None:
        """A step from a finite loss can still end in weights that are not; they must not replace good ones."""
        parts = ((name, local(p)) for name, p in self.trained.named_parameters())
        bad = next((name for name, own in parts if not own.isfinite().all()), None)
        if bad is not None:
            raise TrainingStopped(
                f"step {self.spent.step}: the weights of {bad} are not finite; the last good checkpoint is kept; "
                "lower --lr, or set clip"
            )

    def _check_patience(self) -> None:
        if self.settings.patience is not None and self.since_best >= self.settings.patience:
            self.stop = self.stop or "patience"

    def _log(self, loss: float, rate: float, norm: float) -> None:
        spent = self.spent
        speed = spent.tokens / max(spent.seconds, 1e-9)
        used = peak_bytes(self.device)
        row = spent.to_json() | {"loss": loss, "lr": rate, "norm": norm, "tokens_per_second": speed, "memory": used}
        if self.folder is not None and self.ranks.main:
            self.folder.log(row)
        if self.progress.due():
            total = self.settings.total_steps
            fields = {
                "step": f"{spent.step:,}" + (f"/{total:,}" if total else ""),
                "loss": f"{loss:.4f}",
                **({"perplexity": f"{math.exp(min(loss, 50)):.2f}"} if self.task.in_nats else {}),
                "tokens/s": f"{speed:,.0f}",
                **({"memory": f"{used / 2**20:,.0f} MB"} if used is not None else {}),
            }
            self.progress.show(fields, spent.share(self.settings), spent.seconds)

    def _tick(self) -> None:
        """Count the seconds since; among ranks those of the main one, or ranks would end after different steps."""
        self.spent.tick()
        self.spent.seconds = self.ranks.send(self.spent.seconds)

    def _evaluate(self) -> dict[str, Any]:
        self._tick()
        self.model.eval()
        with torch.no_grad(), Swapped(self.trained, self.average):
            found, value = self._measure()
            if not math.isfinite(value):
                raise TrainingStopped(
                    f"step {self.spent.step}: validation {self.task.metric} {value}: not finite; the last good "
                    "checkpoint is kept; lower --lr, or set clip"
                )
            self._save_if_best(value)
            if self.settings.keep is not None and self.folder is not None and self.ranks.main:
                self.folder.snapshot(self.spent.step).parent.mkdir(exist_ok=True)
                checkpoint.write_tensors(self.folder.snapshot(self.spent.step), checkpoint.weights(self.model), {})
                for step in self.folder.snapshot_steps(self.spent.step)[: -self.settings.keep]:
                    self.folder.snapshot(step).unlink()
        self.trained.train()
        self.schedule.evaluated(value)
        self.evaluated = self.spent.step
        self._check_patience()
        if self.folder is not None and self.ranks.main:
            self.folder.log(self.spent.to_json() | {"valid": value})
        self.progress.say(f"step {self.spent.step:,}  validation {self.task.metric} {value:.4f}  best {self.best:.4f}")
        self.spent.skip()  # evaluation is not training time
        return found

    def _measure(self) -> tuple[dict[str, Any], float]:
        """The evaluation of the whole weights by the main rank, and its figure on all."""
        if self.ranks.shard:
            gather_weights(self.trained, self.model)
        found = self.task.evaluate(self.model, "valid") if self.ranks.main else {}
        return found, self.ranks.send(float(found[self.task.metric]) if self.ranks.main else None)

    def _save_if_best(self, value: float) -> None:
        if not value < self.best:
            self.since_best += 1
            return
        self.best, self.since_best = value, 0
        if self.folder is not None and self.ranks.main:
            note = {"spent": self.spent.to_json(), "valid": value}
            checkpoint.write_tensors(self.folder.best, checkpoint.weights(self.model), note)

    def _evaluate_mean(self) -> None:
        """Evaluate the mean of the last snapshots, and save it if it is the best."""
        folder, keep = self.folder, self.settings.keep
        if (
            folder is None
            or not self.ranks.main
            or keep is None
            or len(steps := folder.snapshot_steps(self.spent.step)) < 2
        ):
            return
        before = {name: tensor.clone() for name, tensor in checkpoint.weights(self.model).items()}
        mean: dict[str, Any] = {}
        for step in steps[-keep:]:
            tensors, _ = checkpoint.read_tensors(folder.snapshot(step))
            checkpoint.check_weights(self.model, tensors, folder.snapshot(step))
            for name, tensor in tensors.items():
                share = tensor / len(steps[-keep:]) if tensor.is_floating_point() else tensor
                mean[name] = mean[name] + share if name in mean and tensor.is_floating_point() else share
        checkpoint.load_weights(self.model, mean, folder.snapshot(steps[-1]))
        self.model.eval()
        with torch.no_grad():
            value = float(self.task.evaluate(self.model, "valid")[self.task.metric])
            if value < self.best:
                self._save_if_best(value)
        self.progress.say(f"mean of the last {len(steps[-keep:])} evaluations: {self.task.metric} {value:.4f}")
        checkpoint.load_weights(self.model, before, folder.last)

    def _finish(self) -> dict[str, Any]:
        """Evaluate what came last, save, and leave the best weights in model.safetensors."""
        if self.evaluated != self.spent.step:
            self._evaluate()
        self._evaluate_mean()
        self.save()
        self.writer.finish(main=self.ranks.main)
        if not self.ranks.main:
            return {}
        if self.folder is not None:
            tensors, note = checkpoint.read_tensors(self.folder.best)
            checkpoint.load_weights(self.model, tensors, self.folder.best)
            checkpoint.write_tensors(self.folder.model_path, tensors, note)
        self.model.eval()
        with torch.no_grad():
            return self.task.evaluate(self.model, "valid")

    def _catch_signals(self) -> dict[int, Any]:
        """Ctrl-C and SIGTERM end the step that runs, save, and leave with a line that says how to go on."""

        def note(number: int, frame: FrameType | None) -> None:
            self.signalled = True

        try:
            return {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
        except ValueError:  # not in the main thread
            return {}
