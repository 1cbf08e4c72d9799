"""`bome resume`: continue whatever was interrupted, in its folder."""

import os
import shlex
import warnings
from contextlib import chdir
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from bome.cli.console import line, note, print_json
from bome.cli.options import Folder as FolderArgument
from bome.cli.options import Json, Quiet, Settings, parse_settings
from bome.cli.report import make_page
from bome.cli.run import run_plan, show
from bome.errors import ProblemError, StorageError
from bome.reports import write_report
from bome.runs import directory
from bome.runs.plan import Plan
from bome.runs.plan import plan as make_plan
from bome.storage import checkpoint
from bome.storage.folder import CONFIG, Config, Folder

KEPT = ("outer_lr", "theta_lr", "momentum", "decay")
"""Settings that live in the saved optimisers and schedulers: a resumed run goes on with the saved ones."""


def resume(
    context: typer.Context,
    folder: FolderArgument,
    settings: Settings = None,
    force: Annotated[
        bool, typer.Option("--force", help="Continue a run although its configuration is not that of the checkpoints.")
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Continue what was interrupted: a run, a solution, a sweep, a cleaning, a mixture, a study or the demonstration.

    A run goes on from its newest good checkpoint; --set steps=N makes it longer. Anything else goes on by the command
    in config.json.
    """
    config = Folder(folder).config()
    if config.kind == directory.RUN:
        _resume_run(folder, parse_settings(settings), force=force, quiet=quiet, as_json=as_json)
        return
    if settings or force:
        raise ProblemError("--set and --force are for single runs on a task: start anew to change something else")
    summary = Folder(folder).summary()
    if summary is None or summary.get("status", directory.FINISHED) != directory.FINISHED:
        _repeat(context, folder, config, quiet=quiet, as_json=as_json)
        return
    page = folder / directory.REPORT
    if not page.exists():  # the work may have been stopped between its last part and its page
        page = make_page(folder)
    if not quiet:
        note("finished already: nothing to do")
    if as_json:
        print_json(summary)
    elif not quiet:
        line(f"report: {page}")


def _repeat(context: typer.Context, folder: Path, config: Config, *, quiet: bool, as_json: bool) -> None:
    """Carry out the command of a folder again, which goes on with what is there; no shell has a part in it."""
    verbs: Any = context.find_root().command
    name, *words = _words(folder, config)
    if name not in verbs.commands:
        raise ProblemError(f"{folder / CONFIG}: there is no verb {name!r}: install the package that has it")
    place = Path(config.place)
    if not place.is_dir():
        warnings.warn(f"{place}, where this was begun, does not exist: paths are looked up from here", stacklevel=2)
        place = Path.cwd()
    words += ["--out", str(folder if place.samefile(os.curdir) else folder.absolute())]  # the last one counts
    words += ["--quiet"] if quiet else []
    words += ["--json"] if as_json else []
    verb = verbs.commands[name]
    with chdir(place), verb.make_context(name, words, parent=context.find_root()) as inner:
        verb.invoke(inner)


def _words(folder: Path, config: Config) -> list[str]:
    """The verb of a stored command and what follows it; nothing but the command that makes such folders passes."""
    verb = "run" if config.kind == "continual" else config.kind
    try:
        words = shlex.split(config.command)
    except ValueError:
        words = []
    if words[:2] != ["bome", verb]:
        raise StorageError(f"{folder / CONFIG} is damaged: its command does not begin with 'bome {verb}'")
    return words[1:]


def _resume_run(folder: Path, settings: dict[str, str], *, force: bool, quiet: bool, as_json: bool) -> None:
    """Continue a run on a task from its newest good checkpoint."""
    before = directory.read_config(folder)
    plan = make_plan(before.task, before.method, {**before.set, **settings}, before.seed)
    config = directory.configure(
        plan,
        oracle=before.oracle,
        log_every=before.log_every,
        save_every=before.save_every,
        refit=before.refit,
        keep_best=before.keep_best,
    )
    saved = _newest(folder)
    changes = _changes(directory.read_spec(folder), config.spec) or _method_changes(saved, plan)
    if changes and not force:
        raise ProblemError(
            f"the checkpoints in {folder} were made with another configuration: {'; '.join(changes)}; "
            "undo the change, or continue all the same with --force"
        )
    _check_course(saved, plan)
    summary = directory.read_summary(folder)
    if not changes and _is_over(summary, plan.settings.steps):
        _say_finished(folder, config, summary or {}, quiet=quiet, as_json=as_json)
        return
    if any(change.startswith(KEPT) for change in changes):
        warnings.warn(f"{', '.join(KEPT)} stay as saved with the optimisers", stacklevel=2)
    if not quiet:
        step = None if saved is None else saved.step
        note("no checkpoint yet: starting from the beginning" if step is None else f"continuing from step {step}")
    directory.write_config(folder, config)
    run_plan(folder, plan, config, resume=True, quiet=quiet, as_json=as_json)


def _newest(folder: Path) -> checkpoint.Checkpoint | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", checkpoint.CheckpointWarning)  # the run itself reads it again, and says it
        return checkpoint.load_latest(folder / directory.CHECKPOINTS)


def _changes(before: dict[str, Any] | None, now: dict[str, Any]) -> list[str]:
    """What differs from the configuration of the checkpoints; the number of steps may."""
    if before is None:
        return []
    flat_before, flat_now = _flat(before), _flat(now)
    keys = dict.fromkeys([*flat_before, *flat_now])
    return [
        f"{key} was {flat_before.get(key, 'not set')}, is {flat_now.get(key, 'not set')}"
        for key in keys
        if key != "steps" and flat_before.get(key) != flat_now.get(key)
    ]


def _flat(spec: dict[str, Any]) -> dict[str, Any]:
    given = spec.get("set")
    return {**{key: spec.get(key) for key in ("task", "method", "seed")}, **(given if isinstance(given, dict) else {})}


def _method_changes(saved: checkpoint.Checkpoint | None, plan: Plan) -> list[str]:
    """Whether the checkpoint is of the same method; a tuner may have changed T since the start."""
    if saved is None:
        return []
    method: Any = plan.method
    if plan.tuner is not None and saved.state["tuner"] is not None:
        method = replace(method, inner=method.inner.with_steps(saved.state["tuner"]["steps"]))
    was = saved.state["method"]
    return [] if was == repr(method) else [f"the method was {was}, is {method!r}"]


def _check_course(saved: checkpoint.Checkpoint | None, plan: Plan) -> None:
    """Refuse what no --force can make work."""
    if saved is None:
        return
    if saved.step > plan.settings.steps:
        raise ProblemError(f"steps={plan.settings.steps} is less than the {saved.step} steps already done")
    if bool(saved.state["schedulers"]) != bool(plan.settings.decay):
        raise ProblemError("decay cannot be switched on or off in the middle of a run: start a new one")


def _is_over(summary: dict[str, Any] | None, steps: int) -> bool:
    return summary is not None and summary.get("status") == directory.FINISHED and summary.get("steps") == steps


def _say_finished(
    folder: Path, config: directory.Config, summary: dict[str, Any], *, quiet: bool, as_json: bool
) -> None:
    page = folder / directory.REPORT
    if not page.exists():  # the run may have been stopped between its last step and its report
        write_report(folder)
    if not quiet:
        note("finished already: nothing to do; --set steps=N makes the run longer")
    show(config, summary, page, quiet=quiet, as_json=as_json)
