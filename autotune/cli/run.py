"""`autotune run`: tune a script or a recorded trace."""

from __future__ import annotations

import argparse
import contextlib
import json
import shlex
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.cli.options import (
    add_measuring_arguments,
    add_storage_option,
    add_subject_arguments,
    command_line,
    request_fields,
)

if TYPE_CHECKING:
    from optuna import Study
    from optuna.storages import RDBStorage
    from rich.console import Console

    from autotune.report.live import LiveProgress
    from autotune.report.stored import Conditions
    from autotune.report.summary import Summary
    from autotune.study.candidates import Candidate
    from autotune.study.loop import Plan
    from autotune.study.prepare import Subject
    from autotune.study.request import Request
    from autotune.trial.estimate_runner import EstimateRunner
    from autotune.trial.runner import Runner


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options. One that is not given stays absent, so that a study file can say it."""
    add_storage_option(parser)
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="a study written down as TOML; options win over it"
    )
    parser.add_argument("--json", action="store_true", help="end with one JSON document on stdout")
    group = parser.add_argument_group("what to tune", argument_default=argparse.SUPPRESS)
    add_subject_arguments(group)
    group.add_argument("--partial", action="store_true", help="accept a trace that begins in the middle")
    group.add_argument(
        "--snapshot-device",
        type=int,
        metavar="N",
        help="GPU of a snapshot of several (default: the busiest)",
    )
    group.add_argument("--devices", metavar="N", help="index of the GPU (default 0)")
    _add_search_arguments(parser)
    group = parser.add_argument_group("the study", argument_default=argparse.SUPPRESS)
    group.add_argument("--study", metavar="NAME", help="name of the study (default: the script's)")
    group.add_argument(
        "--trials", type=int, metavar="N", help="trials in all, earlier runs included (default 60)"
    )
    group.add_argument(
        "--without", action="append", metavar="OPTION", help="an option that cannot be used here"
    )
    group.add_argument("--settings", action="append", metavar="S", help="settings to try in any case")
    add_measuring_arguments(group)


def _add_search_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the search", argument_default=argparse.SUPPRESS)
    group.add_argument(
        "--engine",
        metavar="NAME",
        help="allocator engine, model or native, that screens settings before the first trial by replaying a "
        "recording: 3,000 settings, fewer for one of more than 333,000 operations (default model; off = a "
        "plain Optuna study)",
    )
    group.add_argument(
        "--sampler",
        metavar="NAME",
        help="proposes what comes after the screening: tpe, gp, nsga2, qmc or random (default tpe)",
    )
    rounds = group.add_mutually_exclusive_group()
    rounds.add_argument(
        "--confirm-rounds",
        type=int,
        metavar="N",
        help="how often the finalists of a measured study are measured again, in turn (default 3)",
    )
    rounds.add_argument(
        "--no-confirm",
        dest="confirm_rounds",
        action="store_const",
        const=0,
        help="leave that out",
    )
    group.add_argument(
        "--no-early-stop",
        dest="early_stop",
        action="store_false",
        help="measure on when no untested settings can gain more than the noise",
    )


def run(options: argparse.Namespace) -> int:
    """Tune, show what was found, and say what to do next."""
    from rich.console import Console

    from autotune.report.summary import document, summarise
    from autotune.report.terminal import print_report
    from autotune.study.evidence import matters_of
    from autotune.study.storage import database_errors, without_password

    progress = Console(stderr=True)
    request = read_request(options)
    request.check()
    with _ends_on_signals():
        try:
            study = _tune(request, progress)
        except KeyboardInterrupt:
            _say(progress, "Interrupted; every finished trial is kept. To go on: " + _same_command(request))
            return 130
    with database_errors(without_password(request.storage)):
        summary = summarise(study)
        matters = matters_of(study, summary)
    if options.json:
        print(json.dumps(document(summary, matters), indent=2))
    else:
        print_report(summary, Console(), matters)
    if summary.recommended is not None:
        _say(progress, _next_commands(summary, request))
    return 0 if summary.recommended is not None else 1


def read_request(options: argparse.Namespace) -> Request:
    """The request of a command line, completed by a study file.

    Raises:
        UsageError: a value cannot be read.
    """
    from autotune.study.config import load_study_file
    from autotune.study.request import Request

    own = ("command", "config", "json")
    given = request_fields({name: value for name, value in vars(options).items() if name not in own})
    request = Request(**given)
    if options.config is not None:
        request = request.completed_from(load_study_file(options.config), given=frozenset(given))
    return request


def _tune(request: Request, progress: Console) -> Study:
    """Prepare, then run trials until the budget is spent."""
    from autotune.measurement import Obtained
    from autotune.study.book import check_conditions, open_study
    from autotune.study.lock import hold_study
    from autotune.study.prepare import look_at, plan_for, runner_for
    from autotune.study.storage import open_storage
    from autotune.trial.estimate_runner import EstimateRunner

    if len(request.devices) > 1:
        _say(progress, f"Trials run one after another, on GPU {request.devices[0]} alone.")
    subject = look_at(request)
    plan = plan_for(subject)
    _introduce(subject, plan, progress)
    storage = open_storage(request.storage)
    with hold_study(storage, request.name):
        stored = check_conditions(
            storage, request.name, subject.conditions, before_recording=subject.needs_recording
        )
        runner, conditions = runner_for(subject, stored, lambda sentence: _say(progress, sentence))
        with contextlib.closing(runner):
            study = open_study(storage, request.name, conditions)
            if _has_trials_left(study, plan, progress):
                plan = _guided(plan, subject, conditions, runner, storage, progress)
                _run_shown(study, runner, plan, progress)
            if runner.obtained is Obtained.MEASURED:
                _confirm_shown(study, runner, plan, request.confirm_rounds, progress)
            elif isinstance(runner, EstimateRunner) and request.confirm_rounds:
                _confirm_on_longer(study, runner, plan, progress)
    return study


def _introduce(subject: Subject, plan: Plan, progress: Console) -> None:
    """Say what is about to happen, and what the environment does to it."""
    from autotune.study.candidates import environment_settings
    from autotune.study.storage import without_password

    request = subject.request
    what = shlex.join([str(request.script or request.trace), *request.args])
    _say(progress, f"Tuning {what}: study '{request.name}' in {without_password(request.storage)}.")
    environment = environment_settings(subject.torch_version)
    if environment is None or not str(environment):
        return
    tried = plan.space.canonical(environment)
    number = next((number for number, one in enumerate(plan.first) if one.settings == tried), None)
    _say(
        progress,
        f"Your environment sets {environment}: "
        + (f"trial {number} measures that" if number is not None else "that uses an option left out")
        + ", and it acts on no other trial.",
    )


def _has_trials_left(study: Study, plan: Plan, progress: Console) -> bool:
    from autotune.report.stored import read_rows, searched

    done = len(searched(read_rows(study)))
    if done >= plan.trials:
        _say(progress, f"The study has {done} trials already; --trials {done + 20} adds to them.")
        return False
    if done:
        _say(progress, f"Going on after {done} finished trials.")
    return True


def _guided(
    plan: Plan,
    subject: Subject,
    conditions: Conditions,
    runner: Runner,
    storage: RDBStorage,
    progress: Console,
) -> Plan:
    """The plan after a screening, which is shown."""
    from autotune.report.live import ScreenProgress
    from autotune.study.screening import guided

    with ScreenProgress(progress) as screen:
        return guided(
            plan,
            subject,
            conditions,
            runner,
            storage,
            say=lambda sentence: _say(progress, sentence),
            heard=screen.heard,
        )


def _run_shown(study: Study, runner: Runner, plan: Plan, progress: Console) -> None:
    from autotune.report.live import LiveProgress
    from autotune.report.stored import read_rows, searched
    from autotune.report.summary import summarise
    from autotune.study.loop import Ending, run_trials

    before = summarise(study)
    done = len(searched(before.rows))
    with LiveProgress(progress, trials=plan.trials, done=done, baseline=before.baseline) as live:
        ending = run_trials(
            study,
            runner,
            plan,
            on_start=lambda number, candidate: _start(live, candidate),
            on_finish=live.finished,
        )
    done = len(searched(read_rows(study)))
    trials = f"{done} trial{'s' if done != 1 else ''}"
    if ending is Ending.SPACE_EXHAUSTED:
        _say(progress, f"Ended after {trials}: everything in the search space was tried.")
    if ending is Ending.NOTHING_TO_GAIN:
        _say(
            progress,
            f"Ended after {trials}: by prediction nothing untested improves memory or time by more than "
            "the noise (--no-early-stop goes on).",
        )


def _confirm_shown(study: Study, runner: Runner, plan: Plan, rounds: int, progress: Console) -> None:
    """Measure the finalists again; what an earlier run confirmed already is not repeated."""
    from autotune.report.confirmed import MORE_STEPS
    from autotune.report.live import LiveProgress
    from autotune.report.summary import summarise
    from autotune.study.confirm import confirm, finalists, missing_runs

    summary = summarise(study)
    missing = len(list(missing_runs(finalists(summary), summary.rows, rounds)))
    if not missing:
        return
    _say(
        progress,
        f"Confirming: {missing} more runs, the finalists in turn, with {MORE_STEPS} times the steps "
        "(--no-confirm leaves that out).",
    )
    with LiveProgress(progress, trials=missing, baseline=summary.baseline) as live:
        confirm(
            study,
            runner,
            plan.space,
            rounds=rounds,
            on_start=lambda number, candidate: _start(live, candidate),
            on_finish=live.finished,
        )


def _confirm_on_longer(study: Study, runner: EstimateRunner, plan: Plan, progress: Console) -> None:
    """Replay the finalists on a recording with more steps: what fits one length only is found out."""
    from autotune.errors import AutotuneError
    from autotune.report.confirmed import MORE_STEPS
    from autotune.report.summary import summarise
    from autotune.study.confirm import confirm, finalists, missing_runs

    summary = summarise(study)
    if not any(missing_runs(finalists(summary), summary.rows, 1)):
        return
    steps = MORE_STEPS * (summary.conditions.measured_steps or 1)
    _say(
        progress,
        f"Recording again, with {MORE_STEPS} times the steps, to replay the finalists on that "
        "(--no-confirm leaves that out).",
    )
    try:
        if not runner.longer(steps):
            _say(progress, "The script has no more steps than were recorded, so the recording is all of it.")
            return
    except AutotuneError as error:
        _say(progress, f"The finalists are not confirmed: {error}")
        return
    confirm(study, runner, plan.space, rounds=1)


def _next_commands(summary: Summary, request: Request) -> str:
    """What to do now, ready to copy."""
    commands = (("report", "--html", "report.html"), ("export", "-o", "best.env"), ("dashboard",))
    lines = [command_line(name, summary.study, request.storage, *more) for name, *more in commands]
    return "\n  ".join(["Next:", *lines])


def _same_command(request: Request) -> str:
    """The command that was typed; a password in it is hidden."""
    from autotune.study.storage import without_password

    words = [word.replace(request.storage, without_password(request.storage)) for word in sys.argv[1:]]
    return shlex.join(["python", "-m", "autotune", *words])


_INTERRUPTED = threading.Event()


def _start(live: LiveProgress, candidate: Candidate) -> None:
    """A trial begins, unless an interrupt got lost: raised in a destructor, say, Python drops it."""
    if _INTERRUPTED.is_set():
        raise KeyboardInterrupt
    live.started(str(candidate.settings))


@contextlib.contextmanager
def _ends_on_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end a run as tidily as Ctrl-C does; what is ignored (`nohup`) stays ignored."""

    def interrupt(number: int, frame: object) -> None:
        _INTERRUPTED.set()
        raise KeyboardInterrupt

    _INTERRUPTED.clear()
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    names = [name for name in signals if signal.getsignal(name) is not signal.SIG_IGN]
    before = [signal.signal(name, interrupt) for name in names]
    try:
        yield
    finally:
        for name, handler in zip(names, before, strict=True):
            signal.signal(name, handler)


def _say(console: Console, sentence: str) -> None:
    from autotune.report.wording import plain

    lines = [plain(line) for line in f"autotune: {sentence}".split("\n")]
    console.print("\n".join(lines), markup=False, highlight=False, soft_wrap=True)
