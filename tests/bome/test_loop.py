"""Runs: resumed at every step bit for bit, interrupted by signals, and flat in memory."""

import gc
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import SGD, Adam, Optimizer
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, LRScheduler, MultiStepLR, SequentialLR
from torch.utils.data import DataLoader, TensorDataset

from bome import PerSample, Problem, Stepper
from bome.data.streams import Constant, Data, Loader, Minibatches
from bome.errors import NonFiniteError, ProblemError, RunInterruptedError, StorageError
from bome.loop import Record, Result, run
from bome.methods import BOME
from bome.stopping import MaxSteps, Progress
from bome.storage import checkpoint as checkpoints
from bome.storage.checkpoint import CheckpointWarning
from tests.support.samples import NAMES, Name, blobs, bome, cleaning, same, seeded, toy

STEPS = 50


@dataclass
class Setup:
    """Everything a run needs, made afresh."""

    problem: Problem
    method: BOME
    outer_opt: Optimizer
    inner_opt: Optimizer
    schedulers: list[LRScheduler]
    data: Data

    def run(self, record: Record | None, stop: int, progress: Callable[[Progress], None] | None = None) -> Result:
        return run(
            self.problem, self.method, outer_opt=self.outer_opt, inner_opt=self.inner_opt, schedulers=self.schedulers,
            data=self.data, record=record, stop=MaxSteps(stop), progress=progress, log_every=3,
            observe=lambda p: {"norm": float(p.point.v[0].norm()), "draw": float(np.random.random())},  # noqa: NPY002
        )  # fmt: skip


def toy_with_momentum() -> Setup:
    """Full batch, momentum for both, schedulers of two kinds, and a multiplier that feels their step sizes."""
    problem = toy()
    outer_opt, inner_opt = (SGD(leaves, 0.05, momentum=0.9) for leaves in (problem.v.leaves, problem.theta.leaves))
    after = SequentialLR(
        inner_opt, [CosineAnnealingLR(inner_opt, 20), MultiStepLR(inner_opt, [5, 15], 0.3)], milestones=[20]
    )
    falling = LambdaLR(outer_opt, lambda k: (k + 1) ** -0.5)
    return Setup(problem, bome(3, geometry="steps"), outer_opt, inner_opt, [falling, after], Data())


def _weighted(w: Tensor, net: Any, batch: Any) -> Tensor:
    return (w.sigmoid() * cross_entropy(net(batch.data[0]), batch.data[1], reduction="none")).mean()


def _noisy_net() -> nn.Module:
    with seeded(3):
        return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Dropout(0.4), nn.Linear(6, 3)).double()


def minibatches_with_noise() -> Setup:
    """A row per sample, dropout, BatchNorm, Adam, shuffled minibatches for both losses."""
    x, y = blobs(32)
    xv, yv = blobs(20)
    net, table = _noisy_net(), PerSample(32, dtype=torch.float64)
    problem = Problem(lambda w, n, b: cross_entropy(n(b.data[0]), b.data[1]), _weighted, table, net)
    data = Data(inner=Minibatches((x, y), 10, seed=1), outer=Minibatches((xv, yv), 7, seed=2))
    outer_opt, inner_opt = SGD(problem.v.leaves, 2.0), Adam(problem.theta.leaves, 0.01)
    return Setup(problem, bome(2), outer_opt, inner_opt, [LambdaLR(inner_opt, lambda k: 0.98**k)], data)


def loader_with_noise() -> Setup:
    """A dense v with Adam, fresh batches from a shuffling loader with its own generator, f from one without."""
    x, y = blobs(32)
    net = _noisy_net()
    w = torch.zeros(32, dtype=torch.float64)

    def inner(w: Tensor, n: Any, b: Any) -> Tensor:
        return (w[b[2]].sigmoid() * cross_entropy(n(b[0]), b[1], reduction="none")).mean()

    problem = Problem(lambda w, n, b: cross_entropy(n(b[0]), b[1]), inner, w, net)
    own = DataLoader(TensorDataset(x, y, torch.arange(32)), 9, shuffle=True, generator=torch.Generator().manual_seed(4))
    shared = DataLoader(TensorDataset(x, y), 8, shuffle=True)
    outer_opt, inner_opt = Adam(problem.v.leaves, 0.05), SGD(problem.theta.leaves, 0.1, momentum=0.9)
    return Setup(
        problem, bome(2, draw="fresh"), outer_opt, inner_opt, [], Data(inner=Loader(own), outer=Loader(shared))
    )


SETUPS: dict[str, Callable[[], Setup]] = {
    "toy": toy_with_momentum,
    "minibatches": minibatches_with_noise,
    "loader": loader_with_noise,
}


@pytest.fixture(autouse=True)
def _generators_put_back() -> Iterator[None]:
    state = np.random.get_state()  # noqa: NPY002
    with torch.random.fork_rng():
        yield
    np.random.set_state(state)  # noqa: NPY002


def _seed(seed: int) -> None:
    torch.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002


def outcome(setup: Setup, result: Result) -> dict[str, Any]:
    """All that must be equal: variables, statistics, optimisers, schedulers, generators, counts, rows, certificate."""
    state = {key: value for key, value in result.state.items() if key != "seconds"}
    rows = [{key: value for key, value in row.items() if key != "seconds"} for row in result.history.rows]
    return {
        "state": state,
        "rows": rows,
        "certificate": result.certificate.to_dict(),
        "evaluations": result.evaluations,
        "status": result.status,
        "rates": [group["lr"] for opt in (setup.outer_opt, setup.inner_opt) for group in opt.param_groups],
    }


def uninterrupted(name: str, folder: Path) -> dict[str, Any]:
    _seed(0)
    setup = SETUPS[name]()
    return outcome(setup, setup.run(Record(folder), STEPS))


def interrupted(name: str, folder: Path, at: int, by: str) -> None:
    """Stop after some steps: by the end of a shorter run, or by a signal during the step."""
    _seed(0)
    setup = SETUPS[name]()
    if by == "end":
        setup.run(Record(folder), at)
        return

    def kill(progress: Progress) -> None:
        if progress.step == at:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(RunInterruptedError, match=f"interrupted by SIGTERM after step {at}; the state is saved"):
        setup.run(Record(folder), STEPS, kill)


def resumed(name: str, folder: Path) -> dict[str, Any]:
    _seed(99)
    setup = SETUPS[name]()
    return outcome(setup, setup.run(Record(folder, resume=True), STEPS))


@pytest.mark.parametrize("name", SETUPS)
def test_a_run_stopped_at_any_step_goes_on_as_if_it_had_not_been(name: str, tmp_path: Path) -> None:
    """At each of 50 steps: odd ones by SIGTERM, even ones by the end of a shorter run. Equal in every bit."""
    expected = uninterrupted(name, tmp_path / "whole")
    for at in range(1, STEPS):
        folder = tmp_path / str(at)
        interrupted(name, folder, at, "signal" if at % 2 else "end")
        found = resumed(name, folder)
        for key, value in expected.items():
            assert same(found[key], value), f"{key} differs after a stop at step {at}"


LOST: dict[str, tuple[str, Callable[[Setup], Any]]] = {
    "position of the data": ("minibatches", lambda s: {"data": s.data.state_dict()}),
    "generators": ("minibatches", lambda s: {"random": None}),
    "running statistics": ("minibatches", lambda s: {"buffers": s.problem.buffers}),
    "inner optimiser": ("minibatches", lambda s: {"inner_opt": s.inner_opt.state_dict()}),
    "schedulers": (
        "minibatches",
        lambda s: {"schedulers": [x.state_dict() | {"lr_lambdas": [None]} for x in s.schedulers]},
    ),
    "v": ("minibatches", lambda s: {"v": list(s.problem.point.v)}),
    "theta": ("minibatches", lambda s: {"theta": list(s.problem.point.theta)}),
    "outer optimiser": ("toy", lambda s: {"outer_opt": s.outer_opt.state_dict()}),
    "steps without constraint": ("toy", lambda s: {"inactive": None}),
    "counts": ("toy", lambda s: {"counts": {}}),
    "shuffling of a loader": ("loader", lambda s: {"data": s.data.state_dict()}),
}


@pytest.mark.parametrize("lost", LOST)
def test_a_checkpoint_that_lacks_any_one_thing_leads_elsewhere(lost: str, tmp_path: Path) -> None:
    """The control: each part of the state is put back to how a fresh run has it, and the outcome must differ."""
    name, fresh = LOST[lost]
    expected = uninterrupted(name, tmp_path / "whole")
    folder = tmp_path / "run"
    interrupted(name, folder, 21, "end")
    saved = checkpoints.load_latest(folder / "checkpoints")
    assert saved is not None
    _seed(7)
    changes = fresh(SETUPS[name]())
    if lost == "generators":
        changes = {"random": {**saved.state["random"], "torch": torch.get_rng_state()}}
    checkpoints.save(folder / "checkpoints", saved.step, {**saved.state, **changes})
    found = resumed(name, folder)
    assert not all(same(found[key], value) for key, value in expected.items())


def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(tmp_path: Path) -> None:
    """Saved every 10 steps and stopped at 34; the newest, of step 34, has a flipped bit: continued from 30."""
    expected = uninterrupted("minibatches", tmp_path / "whole")
    _seed(0)
    setup = SETUPS["minibatches"]()
    setup.run(Record(tmp_path / "run", save_every=10), 34)
    damaged = tmp_path / "run" / "checkpoints" / "step_00000034" / "tensors.safetensors"
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 4
    damaged.write_bytes(bytes(content))
    with pytest.warns(CheckpointWarning, match="checksum mismatch in tensors.safetensors; using step_00000030 instead"):
        found = resumed("minibatches", tmp_path / "run")
    assert all(same(found[key], value) for key, value in expected.items())


def test_resuming_a_finished_run_does_nothing_and_gives_the_same_result(tmp_path: Path) -> None:
    expected = uninterrupted("minibatches", tmp_path)
    saved = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    rows = (tmp_path / "metrics.jsonl").read_text()
    found = resumed("minibatches", tmp_path)
    assert all(same(found[key], value) for key, value in expected.items())
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == saved
    assert (tmp_path / "metrics.jsonl").read_text().splitlines()[:-1] == rows.splitlines()[:-1]


def test_a_folder_with_checkpoints_is_not_started_over_by_mistake(tmp_path: Path) -> None:
    toy_with_momentum().run(Record(tmp_path), 5)
    before = (tmp_path / "metrics.jsonl").read_bytes()
    with pytest.raises(
        ProblemError, match=r"holds another run: continue it with resume=True, or choose another folder"
    ):
        toy_with_momentum().run(Record(tmp_path), 5)
    assert (tmp_path / "metrics.jsonl").read_bytes() == before


def test_resuming_an_empty_folder_starts_from_the_beginning(tmp_path: Path) -> None:
    expected = uninterrupted("toy", tmp_path / "whole")
    _seed(0)
    setup = SETUPS["toy"]()
    found = outcome(setup, setup.run(Record(tmp_path / "new", resume=True), STEPS))
    assert all(same(found[key], value) for key, value in expected.items())


def _other(change: str) -> Setup:
    setup = toy_with_momentum()
    if change == "dtype":
        problem = toy(torch.float32)
    elif change == "shape":
        problem = Problem(lambda v, t, b: (v * t).sum(), lambda v, t, b: (v * t).sum(), torch.ones(2), torch.ones(2))
    else:
        problem = setup.problem
    opts = [SGD(leaves, 0.05, momentum=0.9) for leaves in (problem.v.leaves, problem.theta.leaves)]
    schedulers = [] if change == "schedulers" else [LambdaLR(opt, lambda k: 1.0) for opt in opts]
    if change == "groups":
        opts[0].add_param_group({"params": [torch.ones(1)]})
    return Setup(problem, bome(3), opts[0], opts[1], list(schedulers), Data())


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("dtype", "the checkpoint is of another problem: its v has shapes and dtypes"),
        ("shape", "the checkpoint is of another problem: its v has shapes and dtypes"),
        ("schedulers", "the checkpoint is of another run: it has other running statistics or schedulers"),
        ("groups", "the checkpoint is of another outer_opt: loaded state dict has a different number of parameter gr"),
    ],
)
def test_a_checkpoint_of_something_else_is_refused(change: str, says: str, tmp_path: Path) -> None:
    toy_with_momentum().run(Record(tmp_path), 5)
    with pytest.raises(StorageError, match=says):
        _other(change).run(Record(tmp_path, resume=True), 10)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_the_step_and_handlers_are_put_back(number: signal.Signals, code: int, tmp_path: Path) -> None:
    handlers = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
    seen: list[int] = []

    def kill(progress: Progress) -> None:
        seen.append(progress.step)
        if progress.step == 4:
            os.kill(os.getpid(), number)

    with pytest.raises(RunInterruptedError) as caught:
        toy_with_momentum().run(Record(tmp_path), STEPS, kill)
    assert caught.value.exit_code == code
    assert seen == [1, 2, 3, 4]
    saved = checkpoints.load_latest(tmp_path / "checkpoints")
    assert saved is not None
    assert saved.step == 4
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == handlers


def test_a_second_signal_acts_at_once(tmp_path: Path) -> None:
    """The second Ctrl-C during a step is an ordinary one; without a record so is the first."""

    def kill_twice(progress: Progress) -> None:
        signal.raise_signal(signal.SIGINT)  # to this thread: one sent to the process may arrive later
        signal.raise_signal(signal.SIGINT)

    ordinary = signal.default_int_handler
    inherited = signal.signal(signal.SIGINT, ordinary)  # a shell starts commands in the background without one
    try:
        for record in (Record(tmp_path), None):
            with pytest.raises(KeyboardInterrupt):
                toy_with_momentum().run(record, STEPS, kill_twice)
            assert signal.getsignal(signal.SIGINT) is ordinary
    finally:
        signal.signal(signal.SIGINT, inherited)


def test_ctrl_c_before_another_signal_still_saves_the_step(tmp_path: Path) -> None:
    """As in a worker, which leaves Ctrl-C to the main process, and is then told by that to end."""

    def kill(progress: Progress) -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)

    inherited = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with pytest.raises(RunInterruptedError):
            toy_with_momentum().run(Record(tmp_path), STEPS, kill)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, inherited)
    saved = checkpoints.load_latest(tmp_path / "checkpoints")
    assert saved is not None
    assert saved.step == 1


def test_handlers_are_put_back_after_an_error_too(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)

    def fail(progress: Progress) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        toy_with_momentum().run(Record(tmp_path), STEPS, fail)
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_run_that_diverges_says_where_and_keeps_its_last_checkpoint(tmp_path: Path) -> None:
    problem = toy()
    with pytest.raises(NonFiniteError, match=r"^step \d+: .* is not finite; "):
        run(
            problem, bome(3), outer_opt=SGD(problem.v.leaves, 1e3), record=Record(tmp_path, save_every=5),
            stop=MaxSteps(10_000),
        )  # fmt: skip
    saved = checkpoints.load_latest(tmp_path / "checkpoints")
    assert saved is not None
    assert all(torch.isfinite(x).all() for x in saved.state["v"])


def test_rows_are_logged_at_the_right_steps_and_a_last_one_by_the_certificate(tmp_path: Path) -> None:
    """log_every = 3 and 8 steps: rows of steps 0, 3, 6 as measured at their beginning, and of 8 at the end."""
    setup = toy_with_momentum()
    f0 = float(setup.problem.outer(setup.problem.point.v[0], setup.problem.point.theta[0], None))
    result = setup.run(Record(tmp_path), 8)
    assert result.history.column("step") == [0, 3, 6, 8]
    assert result.history.column("n_g") == [4, 16, 28, 32]
    assert result.history.column("f")[0] == f0
    assert result.history.column("f")[-1] == result.f == result.certificate.f
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 4
    assert result.v is setup.problem.v.value
    assert result.seconds > 0


def _resident() -> int:
    """Resident memory in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _live_tensors() -> int:
    gc.collect()
    return sum(issubclass(type(x), Tensor) for x in gc.get_objects())


@pytest.mark.parametrize("name", NAMES)
def test_two_thousand_steps_leave_memory_flat(name: Name) -> None:
    """The number of tensors is the same after 200 and 2,200 steps, and resident memory has grown by less than 2 MB.

    That is 1 KB a step, the size of 20 tensors of no entries; a graph of this network kept alive has 10 KB.
    """
    problem, batches = cleaning()
    stepper = Stepper(
        problem, bome(1), Adam(problem.v.leaves, 1e-4), SGD(problem.theta.leaves, 1e-4, momentum=0.9), name
    )
    for _ in range(200):
        stepper.step_on(batches)
    tensors, resident = _live_tensors(), _resident()
    for _ in range(2000):
        stepper.step_on(batches)
    assert _live_tensors() == tensors
    assert _resident() - resident <= 2_000_000


def test_a_graph_that_is_kept_shows_in_memory() -> None:
    """The control: 50 steps, each of whose losses keeps what it computed."""
    problem, batches = cleaning()
    kept: list[Tensor] = []
    loss = problem.inner

    def keeping(v: Any, theta: Any, batch: Any) -> Tensor:
        kept.append(loss(v, theta, batch))
        return kept[-1]

    problem.inner = keeping
    stepper = Stepper(problem, bome(1), SGD(problem.v.leaves, 1e-4))
    stepper.step_on(batches)
    tensors = _live_tensors()
    for _ in range(50):
        stepper.step_on(batches)
    assert _live_tensors() >= tensors + 100


def test_full_batch_data_may_be_given_as_constants() -> None:
    problem, batches = cleaning()
    data = Data(inner=Constant(batches.inner[0]), outer=Constant(batches.outer[0]))
    result = run(problem, bome(2), outer_opt=SGD(problem.v.leaves, 0.1), data=data, stop=MaxSteps(3))
    assert result.steps == 3
