"""`autotune doctor`: versions, GPU, options of this torch, what the environment sets, what will not work."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autotune.settings import TorchVersion
    from autotune.trial.facts import Facts


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("--python", default="", metavar="PATH", help="interpreter that would run the script")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: argparse.Namespace) -> int:
    """Look around and say what was found; always 0, a finding is not a failure."""
    from autotune.trial.facts import probe

    found = examine(probe(options.python))
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        _print(found)
    return 0


def examine(facts: Facts) -> dict[str, Any]:
    """Everything there is to say, as data."""
    from autotune import __version__
    from autotune.settings import OPTIONS, parse_torch_version

    version = parse_torch_version(facts.torch) if facts.torch else None
    return {
        "autotune": __version__,
        "versions": _versions(),
        "python": facts.python,
        "python_version": facts.python_version,
        "torch": facts.torch,
        "cuda_build": facts.cuda_build,
        "gpu": facts.gpu,
        "driver": facts.driver,
        "device_total_bytes": facts.device_total_bytes,
        "options": {
            option.name: version is not None and version >= option.since
            for option in OPTIONS.values()
            if option.tunable
        },
        "environment": {name: os.environ[name] for name in _variables() if name in os.environ},
        "problems": _problems(facts, version),
    }


def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for name in ("optuna", "optuna-dashboard", "sqlalchemy", "numpy", "numba", "plotly"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "missing"
    return found


def _variables() -> tuple[str, ...]:
    from autotune.settings import ENVIRONMENT_VARIABLE

    return (
        ENVIRONMENT_VARIABLE,
        "PYTORCH_ALLOC_CONF",
        "PYTORCH_NO_CUDA_MEMORY_CACHING",
        "CUDA_VISIBLE_DEVICES",
    )


def _problems(facts: Facts, version: TorchVersion | None) -> list[str]:
    """What will not work, and why; one sentence each."""
    from autotune.errors import SettingsError
    from autotune.settings import OPTIONS
    from autotune.study.candidates import environment_settings
    from autotune.trial.phantom import why_no_phantom

    problems = []
    if facts.torch is None:
        problems.append(f"No torch in {facts.python}, so no script can be run: {facts.why_not}.")
    elif not facts.usable:
        how = why_no_phantom(facts)
        problems.append(
            f"No usable GPU ({facts.why_not}): `run --script` estimates on a phantom one, and step time is "
            "not measured."
            if how is None
            else f"No usable GPU ({facts.why_not}), and no phantom one ({how}): `run --script` estimates "
            "from a recording on the CPU, and step time is not measured."
        )
    try:
        environment_settings(version)
    except SettingsError as error:
        problems.append(str(error))
    if version is not None:
        problems += [
            f"{option.name} needs torch {option.since[0]}.{option.since[1]}, and is not tried."
            for option in OPTIONS.values()
            if option.tunable and option.since > version
        ]
    problems.append(
        "garbage_collection_threshold acts only under a memory limit, and is tried only with --memory-limit."
    )
    if os.environ.get("PYTORCH_NO_CUDA_MEMORY_CACHING"):
        problems.append(
            "PYTORCH_NO_CUDA_MEMORY_CACHING is set: there is no caching allocator to tune; unset it."
        )
    return problems + _platform_problems()


def _platform_problems() -> list[str]:
    if sys.platform != "linux":
        return [
            f"expandable_segments does not exist on {platform.system()}; use --without expandable_segments."
        ]
    if "microsoft" in platform.release().lower():
        return ["expandable_segments often fails on WSL; use --without expandable_segments if trials crash."]
    return []


def _print(found: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from autotune.units import format_bytes, printable

    total = found["device_total_bytes"]
    gpu = (
        f"{found['gpu']}, {format_bytes(total)}, driver {found['driver']}"
        if found["gpu"] and total
        else "none usable"
    )
    lines = {
        "autotune": f"{found['autotune']}, "
        + ", ".join(f"{name} {text}" for name, text in found["versions"].items()),
        "python": f"{found['python_version']} ({found['python']})",
        "torch": f"{found['torch']} (built for {found['cuda_build'] or 'CPU'})" if found["torch"] else "none",
        "GPU": gpu,
        "options": ", ".join(name for name, there in found["options"].items() if there) or "none",
        "environment": ", ".join(f"{name}={text!r}" for name, text in found["environment"].items())
        or "sets nothing",
    }
    table = Table.grid(padding=(0, 1))
    table.add_column(min_width=12, no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in [*lines.items(), *(("note", problem) for problem in found["problems"])]:
        table.add_row(name, Text(printable(text)))
    Console().print(table)
