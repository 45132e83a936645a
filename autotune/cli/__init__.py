"""The command line. A command is a file; the list of commands is a list; the only `except` is here.

Progress and prose go to stderr, results to stdout; `--json` makes stdout one JSON document.
Exit status: 0 done, 1 the work failed (nothing completed), 2 bad usage or input, 130 interrupted.
"""

from __future__ import annotations

import argparse
import importlib
import os
import shlex
import sys
from collections.abc import Sequence
from typing import Any

from autotune import __version__
from autotune.cli.streams import ReaderGoneError, prepare_streams
from autotune.errors import AutotuneError, UsageError
from autotune.units import printable

COMMANDS = {
    "run": "find the settings that suit a script or a recorded trace",
    "record": "record the allocations of a script into a trace file",
    "replay": "replay a trace under given settings, to the byte",
    "sweep": "try one allocator option through several values, as a table and a figure",
    "fit": "find the largest value of an argument, such as a batch size, that runs",
    "compare-recordings": "two traces of one script side by side, to check an estimate",
    "report": "show a study: baseline, front, recommendation",
    "verify": "measure a study's claim again; exit status 1 if it no longer holds",
    "export": "write the chosen settings as an env file, or for a shell, Docker, Slurm",
    "dashboard": "browse a study in optuna-dashboard, on localhost",
    "doctor": "say what this machine can do, and what will not work and why",
}
"""Command name → one line of help. Module `autotune.cli.NAME` (`_` for `-`) has `add_arguments`, `run`.

Modules are imported only when their command is asked for, so `--help` stays fast.
"""

TAKE_A_SCRIPT = ("run", "record", "sweep", "fit")
"""Commands with `-- ARGS`: an option that none of them knows is most likely the script's."""
LONGEST_SENTENCE = 1000


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    prepare_streams()
    try:
        _require_a_working_folder()
        options = _parsed(arguments)
        status = int(_module(options.command).run(options))
        sys.stdout.flush()
        return status
    except AutotuneError as error:
        print(f"autotune: {one_line(str(error))}", file=sys.stderr)
        return error.exit_status
    except KeyboardInterrupt:
        print("autotune: interrupted; what was finished is kept.", file=sys.stderr)
        return 130
    except ReaderGoneError:
        return 0


def _require_a_working_folder() -> None:
    try:
        os.getcwd()
    except OSError:
        raise UsageError("The working folder no longer exists; change to one that does.") from None


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """The options; what no command knows ends the program, as does `--help`."""
    parser = _parser(arguments)
    options, unknown = parser.parse_known_args(arguments)
    if unknown and options.command in TAKE_A_SCRIPT:
        raise UsageError(
            f"`{options.command}` has no option {unknown[0]}; the script's own arguments come last, "
            f"after `--`: … -- {shlex.join(_own_arguments(arguments, unknown))}"
        )
    if unknown:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    return options


def _own_arguments(arguments: Sequence[str], unknown: Sequence[str]) -> list[str]:
    """Options that are the script's, with the values behind them, which argparse may have taken elsewhere."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    found, of_the_script = [], False
    for word in arguments[:end]:
        negative = word[1:2].isdigit()
        if word.startswith("-") and not negative:
            of_the_script = word in unknown
        if of_the_script or word in unknown:
            found.append(word)
    return [*found, *arguments[end + 1 :]]


def _module(command: str) -> Any:
    return importlib.import_module(f"autotune.cli.{command.replace('-', '_')}")


def one_line(text: str) -> str:
    """The text on one line of bearable length: it may quote what somebody typed, however much that is."""
    flat = printable(" ".join(text.split()))
    return flat if len(flat) <= LONGEST_SENTENCE else f"{flat[: LONGEST_SENTENCE - 200]} … {flat[-200:]}"


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="autotune",
        description="Find, by measurement, the CUDA allocator settings of PyTorch that suit one script.",
        epilog="Begin with: python -m autotune run --script train.py",
    )
    parser.add_argument("--version", action="version", version=f"autotune {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    asked = next((word for word in arguments if not word.startswith("-")), None)
    for name, summary in COMMANDS.items():
        # Whole names only: `--out x` meant for the script must not become our `--output`.
        description = summary[0].upper() + summary[1:] + "."
        command = commands.add_parser(name, help=summary, description=description, allow_abbrev=False)
        if name == asked:
            _module(name).add_arguments(command)
    return parser
