"""Preflight: everything about a job that can be known to fail, found before the first worker starts."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from autotune.errors import UsageError
from autotune.trial.facts import Facts, probe
from autotune.trial.runner import Job

_COMPILE = """
import ast, sys
try:
    ast.parse(open(sys.argv[1], "rb").read(), sys.argv[1])
except (SyntaxError, ValueError) as error:
    line = f" in line {error.lineno}" if getattr(error, "lineno", None) else ""
    sys.exit(f"{error.msg if isinstance(error, SyntaxError) else error}{line}")
"""

MOST_STEPS = 2_000_000
"""Of a trial, warm-up included; nobody waits for more."""


def preflight(job: Job) -> Facts:
    """Check a job, and ask its interpreter for its facts.

    Raises:
        UsageError: the script is missing, unreadable or not Python; the interpreter does not run or has no
            torch; the log folder cannot be written.
    """
    _check_script(job.script)
    if job.warmup_steps < 0 or job.measured_steps < 1:
        raise UsageError(
            f"{job.warmup_steps} warm-up and {job.measured_steps} measured steps do not make a trial; "
            "at least one step has to be measured."
        )
    if job.warmup_steps + job.measured_steps > MOST_STEPS:
        raise UsageError(f"More than {MOST_STEPS:,} steps are too many for a trial; give fewer.")
    check_timeout(job.timeout_seconds)
    check_seed(job.seed)
    if job.device < 0:
        raise UsageError(f"There is no GPU {job.device}; the first one is 0.")
    if not is_writable(job.directory.absolute()):
        raise UsageError(f"The log folder {job.directory} cannot be written; choose another place.")
    facts = probe(job.python, device=job.device)
    _check_syntax(job.script, facts.python)
    if facts.torch is None:
        raise UsageError(
            f"{facts.python} cannot run the script: {facts.why_not}; "
            "name an interpreter that has torch with --python."
        )
    return facts


def check_timeout(seconds: float) -> None:
    """Refuse a time limit that is none, or that no clock keeps.

    Raises:
        UsageError: it is not above zero, or too large.
    """
    if not 0 < seconds < 1e9:
        raise UsageError(
            f"--timeout {seconds!s:.20} cannot be kept; give seconds above 0 and below 1,000,000,000."
        )


def check_seed(seed: int | None) -> None:
    """Refuse a seed that numpy would not take.

    Raises:
        UsageError: it is not a number of 32 bits.
    """
    if seed is not None and not 0 <= seed < 1 << 32:
        raise UsageError(f"--seed {seed} is out of range; it takes 0 to {(1 << 32) - 1}, or use --no-seed.")


def _check_script(script: Path) -> None:
    try:
        if script.is_dir():
            raise UsageError(f"The script {script} is a directory; name a Python file.")
        with script.open("rb"):
            pass
    except FileNotFoundError:
        raise UsageError(f"There is no script {script}.") from None
    except OSError as error:
        raise UsageError(f"The script {script} cannot be read: {error.strerror}.") from error


def _check_syntax(script: Path, python: str) -> None:
    """Parse the script with the interpreter that will run it; its grammar is what counts."""
    answer = subprocess.run(
        [python, "-c", _COMPILE, str(script)], capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    if answer.returncode != 0:
        reason = (answer.stderr.strip().splitlines() or ["it is not Python"])[-1]
        raise UsageError(f"The script {script} has a syntax error: {reason}.")


def is_writable(folder: Path) -> bool:
    """Whether files can be made in a folder that may itself have to be made first."""
    while not folder.exists():
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK)
