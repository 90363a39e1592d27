"""Sessions of onnxruntime over exported graphs, and a step whose state stays in memory that both sides share.

    step = Step.open(folder)
    state = step.initial_state(rows=1)
    logits, state = step(np.array([7]), state)

A state is single-use, as decoding uses it: a step takes it over. `state.copy()` keeps one, to fork or to rewind. What
grows is written in place and has room for a quarter more than was seen, so that a step costs by the tokens seen and
not by the room; every other field alternates between two arrays, one read and one written.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.settings import ContractError
from ..core.typed import show
from .manifest import NEXT, ExportError, GraphFile, Manifest, StateField, check_file, read_manifest

TYPES = {"float": "float32", "double": "float64"}  # names of onnxruntime that are not those of numpy
LARGEST = 1 << 62
GRAIN = 64  # slots are allocated in multiples of it
PARALLEL = 1 << 21  # parameters from which a step is worth more than one thread

Array = NDArray[Any]


def open_session(path: Path | bytes, threads: int = 1) -> Any:
    """A session on a CPU with that many threads."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4  # of its own messages none: errors are raised
    if threads == 1:
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    given = str(path) if isinstance(path, Path) else path
    try:
        return onnxruntime.InferenceSession(given, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its errors have no common class
        name = path if isinstance(path, Path) else "graph"
        raise ExportError(f"{name}: expected a graph for onnxruntime, found something else ({_line(error)})") from None


def check_session(session: Any, declared: GraphFile, path: Path) -> None:
    """Refuse a graph that takes or gives other tensors than the manifest says, on whose sizes memory is bound."""
    for kind, found, wanted in (
        ("inputs", session.get_inputs(), declared.inputs),
        ("outputs", session.get_outputs(), declared.outputs),
    ):
        shapes = {one.name: (one.type.removeprefix("tensor(").removesuffix(")"), one.shape) for one in found}
        if shapes.keys() != {own.name for own in wanted}:
            raise ExportError(f"{path}: expected the {kind} of the manifest, found others")
        for own in wanted:
            dtype, shape = shapes[own.name]
            fixed = [size if isinstance(size, int) else None for size in shape]
            if TYPES.get(dtype, dtype) != own.dtype or fixed != [s if isinstance(s, int) else None for s in own.shape]:
                other = f"{dtype} of {show(shape)}"
                raise ExportError(
                    f"{path}: expected {show(own.name)} as {own.dtype} of {show(own.shape)}, found {other}"
                )


def count_threads(parameters: int) -> int:
    """Threads for a step of a model of that size: one where starting others costs more than it saves."""
    if parameters < PARALLEL:
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Step:
    """One step of an exported model: tokens or numbers in, outputs out, the state in bound memory."""

    def __init__(self, session: Any, manifest: Manifest, starts: Mapping[str, Array], graph: str = "step") -> None:
        self.session, self.manifest = session, manifest
        self.fields = manifest.state
        self.starts = starts  # of fields that begin with other than zeros: one row each
        declared = manifest.graphs[graph]
        self.x, self.y = declared.inputs[0], declared.outputs[0]

    @classmethod
    def open(cls, folder: str | os.PathLike[str], *, threads: int | None = None) -> "Step":
        """The step of an exported folder, every file of it checked against its digest."""
        place = Path(folder)
        manifest = read_manifest(place)
        if "step" not in manifest.graphs:
            raise ExportError(f"{place}: expected an export with a step, found {show(list(manifest.graphs))}")
        path = check_file(place, manifest, manifest.graphs["step"].file)
        session = open_session(path, threads or count_threads(manifest.parameters))
        check_session(session, manifest.graphs["step"], path)
        return cls(session, manifest, read_starts(place, manifest))

    def initial_state(self, rows: int, given: Mapping[str, Array] | None = None) -> "State":
        """The state before anything was seen; `given` are the fields that an encoder leaves."""
        arrays = {}
        for own in self.fields:
            if given is not None and own.name in given:
                arrays[own.name] = np.ascontiguousarray(given[own.name])
            elif own.start == "file":
                arrays[own.name] = np.repeat(self.starts[own.name], rows, axis=0)
            elif own.start == "encode":
                raise ContractError(f"step: expected {own.name!r} from the encoder, found nothing")
            else:
                arrays[own.name] = np.zeros([_size(size, rows, 0) for size in own.shape], own.dtype)
        return State(self, rows, arrays)

    def state_of(self, arrays: Mapping[str, Array]) -> "State":
        """A state with fields as the model has them (batch first, slots second), such as those of a saved one."""
        laid = {own.name: np.ascontiguousarray(arrays[own.name].transpose(own.order)) for own in self.fields}
        return State(self, len(next(iter(laid.values()))) if laid else 1, laid)

    def join(self, states: Sequence["State"]) -> "State":
        """The rows of several states in one."""
        return join(states)

    def check_limit(self, seen: int) -> None:
        """Refuse a step after so many where learned positions end."""
        limit = self.manifest.limit
        if limit is not None and seen >= limit:
            raise ContractError(
                f"expected at most {limit} positions (max_positions), found {seen + 1}; "
                "learned positions end there: use sinusoid, rotary or alibi for longer texts"
            )

    def __call__(self, x: Array, state: "State") -> tuple[Array, "State"]:
        """y and the state after x, a token or a vector of each row. The state that was given is used up."""
        buffers = state.buffers
        if buffers is None or state.turn != buffers.turn or state.seen >= buffers.room:
            buffers = state.take()
        if x.shape != buffers.shape:
            raise ContractError(f"step: expected x of shape {buffers.shape}, found {x.shape}")
        buffers.x[...] = x
        turn = buffers.turn
        buffers.compute(buffers.bindings[turn & 1], None)
        buffers.turn = turn + 1
        return buffers.y, State.after(state)


class State:
    """The state of some rows. It can be used once; `copy` gives another one."""

    __slots__ = ("arrays", "buffers", "rows", "seen", "step", "turn")

    def __init__(self, step: Step, rows: int, arrays: dict[str, Array], seen: int | None = None) -> None:
        self.step, self.rows = step, rows
        self.seen = count_seen(arrays) if seen is None else seen  # steps of the row that has seen most
        self.arrays: dict[str, Array] | None = arrays
        self.buffers: Buffers | None = None
        self.turn = 0

    @classmethod
    def after(cls, before: "State") -> "State":
        """The state that a step left, in the same memory."""
        new = cls.__new__(cls)
        new.step, new.rows, new.seen, new.arrays = before.step, before.rows, before.seen + 1, None
        new.buffers, new.turn = before.buffers, before.turn + 1
        return new

    def take(self) -> "Buffers":
        """The memory of this state with room for one more step."""
        if self.buffers is None:
            assert self.arrays is not None
            self.buffers, self.turn, self.arrays = Buffers(self.step, self.rows, self.arrays), 0, None
        if self.turn != self.buffers.turn:
            raise ContractError("state: expected one that no step has used, found a used one; keep a copy() of it")
        if self.seen >= self.buffers.room:
            self.step.check_limit(self.seen)
            self.buffers.grow()
        return self.buffers

    def fields(self) -> dict[str, Array]:
        """The tensors of the state as the exported graph has them; those that grow with the slots that are in use."""
        if self.buffers is None:
            assert self.arrays is not None
            return self.arrays
        if self.turn != self.buffers.turn:
            raise ContractError("state: expected one that no step has used, found a used one; keep a copy() of it")
        return {own.name: _narrow(self.buffers.now[own.name], own, self.seen) for own in self.step.fields}

    def named(self) -> dict[str, Array]:
        """The tensors as the model's own state has them: batch first, slots second."""
        found = self.fields()
        return {own.name: found[own.name].transpose(np.argsort(own.order)) for own in self.step.fields}

    def copy(self) -> "State":
        return State(self.step, self.rows, {name: array.copy() for name, array in self.fields().items()}, self.seen)

    def select(self, rows: Sequence[int]) -> "State":
        """Some of the rows, in any order, with repeats; slots that none of them has filled are left out."""
        picked = {name: array[list(rows)] for name, array in self.fields().items()}
        seen = count_seen(picked) if any(is_clock(name) for name in picked) else self.seen
        return State(
            self.step, len(rows), {own.name: _narrow(picked[own.name], own, seen) for own in self.step.fields}, seen
        )

    @property
    def nbytes(self) -> int:
        """Bytes of its tensors, of slots in use only."""
        return sum(array.nbytes for array in self.fields().values())


def join(states: Sequence[State]) -> State:
    """The rows of several states in one; rows that have seen less get empty slots."""
    step, seen = states[0].step, max(state.seen for state in states)
    parts = [state.fields() for state in states]
    arrays = {}
    for own in step.fields:
        arrays[own.name] = np.concatenate([_widen(part[own.name], own, seen) for part in parts])
    return State(step, sum(state.rows for state in states), arrays, seen)


class Buffers:
    """The memory of a state, bound to a session: two arrays of each field, one for those that grow in place."""

    def __init__(self, step: Step, rows: int, arrays: Mapping[str, Array]) -> None:
        self.step, self.rows, self.turn = step, rows, 0
        # the session below onnxruntime's Python class, whose own call costs as much as a small model's step
        own = step.session
        self.compute = own._sess.run_with_iobinding if hasattr(own, "_sess") else own.run_with_iobinding
        self.x = np.zeros([_size(size, rows, 1) for size in step.x.shape], step.x.dtype)
        self.shape = self.x.shape
        self.y = np.zeros([_size(size, rows, 1) for size in step.y.shape], step.y.dtype)
        self.room = 0  # steps of a row that fit
        self.sides: list[dict[str, Array]] = []
        self.bind(arrays)

    @property
    def now(self) -> dict[str, Array]:
        return self.sides[self.turn % 2]

    def bind(self, arrays: Mapping[str, Array]) -> None:
        """Take the state over from `arrays`, with room for a quarter more slots than there are."""
        growing = [own for own in self.step.fields if own.grows]
        seen = max((arrays[own.name].shape[own.slot_axis] for own in growing), default=0)
        slots = -(-max(seen + 1, seen * 5 // 4) // GRAIN) * GRAIN
        rooms = [slots for own in growing if own.most is None or slots < own.most]
        self.room = min([*rooms, LARGEST if (limit := self.step.manifest.limit) is None else limit])
        first, second = {}, {}
        for own in self.step.fields:
            given = arrays[own.name]
            if own.grows:
                first[own.name] = second[own.name] = _widen(given, own, slots)
            elif own.constant:
                first[own.name] = second[own.name] = np.ascontiguousarray(given)
            else:
                first[own.name], second[own.name] = np.array(given, order="C"), np.empty(given.shape, given.dtype)
        self.sides = [first, second]
        self.turn = 0
        self.bindings = [self._bind(first, second), self._bind(second, first)]

    def grow(self) -> None:
        """More room for what grows."""
        turn = self.turn
        self.bind(dict(self.now))
        if turn % 2:
            self.sides.reverse()
            self.bindings.reverse()
        self.turn = turn

    def _bind(self, given: Mapping[str, Array], left: Mapping[str, Array]) -> Any:
        binding = self.step.session.io_binding()
        for name, array in [(self.step.x.name, self.x), *((own.name, given[own.name]) for own in self.step.fields)]:
            binding.bind_input(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
        changed = ((NEXT + own.name, left[own.name]) for own in self.step.fields if not own.constant)
        for name, array in [(self.step.y.name, self.y), *changed]:
            binding.bind_output(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
        return getattr(binding, "_iobinding", binding)


def read_starts(folder: Path, manifest: Manifest) -> dict[str, Array]:
    """The fields of the state that begin with other than zeros: one row each, from start.safetensors."""
    wanted = [own for own in manifest.state if own.start == "file"]
    if not wanted:
        return {}
    from safetensors import SafetensorError
    from safetensors.numpy import load

    path = check_file(folder, manifest, "start.safetensors")
    try:
        found = load(path.read_bytes())
    except (SafetensorError, ValueError) as error:
        raise ExportError(f"{path}: expected the first state (safetensors), found another ({_line(error)})") from None
    for own in wanted:
        shape = tuple(_size(size, 1, 0) for size in own.shape)
        if own.name not in found or found[own.name].shape != shape or str(found[own.name].dtype) != own.dtype:
            raise ExportError(f"{path}: expected {show(own.name)} as {own.dtype} of {shape}, found another or none")
    return {own.name: found[own.name] for own in wanted}


def count_seen(arrays: Mapping[str, Array]) -> int:
    """Steps of the row that has seen most, by the clocks of a state; 0 where it has none."""
    return max((int(array.max(initial=0)) for name, array in arrays.items() if is_clock(name)), default=0)


def is_clock(name: str) -> bool:
    """Whether a field counts the steps that each row has seen."""
    return name.split(".")[-1] == "clock"


def _size(size: int | str, rows: int, slots: int) -> int:
    if isinstance(size, int):
        return size
    return rows if size == "batch" else slots


def _narrow(array: Array, own: StateField, slots: int) -> Array:
    if not own.grows:
        return array
    return array[(slice(None),) * own.slot_axis + (slice(0, own.limit_slots(slots)),)]


def _widen(array: Array, own: StateField, slots: int) -> Array:
    """A copy with that many slots where the field grows, the new ones empty."""
    if not own.grows:
        return array
    shape = list(array.shape)
    shape[own.slot_axis] = own.limit_slots(slots)
    wide = np.zeros(shape, array.dtype)
    wide[(slice(None),) * own.slot_axis + (slice(0, array.shape[own.slot_axis]),)] = array
    return wide


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]
