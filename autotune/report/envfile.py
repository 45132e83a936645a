"""The chosen settings as a file: for `sh` and `docker --env-file`, a shell, a Dockerfile, Slurm, or as JSON.

An env file is read by two readers with different rules: `sh` gives `>` and blanks a meaning, and
`docker --env-file` keeps quotes as part of the value. So there the value holds neither: the `>` of a list of
roundup divisions is written out as explicit sizes, which every release of torch reads as the same table, and
a comment says so. All other formats can quote, and have the settings as they are reported.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime

from autotune.report.stored import Row
from autotune.report.summary import Summary
from autotune.report.wording import NEEDS_FRACTION, cells, machine, plain, subject, time_phrase
from autotune.settings import ENVIRONMENT_VARIABLE, ROUNDUP_INTERVALS, AllocatorSettings
from autotune.units import format_bytes

_HARMLESS = re.compile(r"[A-Za-z0-9_:.,\[\]-]*")
"""Letters that neither `sh` nor Docker changes in an unquoted value."""
WRITTEN_OUT = (
    "# In the list, `>` (and all larger sizes) is written out: unquoted, a shell would redirect to a file, "
    "and docker --env-file would keep quotes. torch reads both as the same."
)


def render(summary: Summary, row: Row, *, pick: str, form: str) -> str:
    """The chosen row in one of `FORMS`, ending in a line break."""
    return FORMS[form](summary, row, pick)


def portable(settings: str) -> str:
    """The same settings without `>`.

    Raises:
        AssertionError: a letter is left that a shell would change; the settings' grammar has none.
    """
    parsed = AllocatorSettings.parse(settings)
    roundup = parsed.roundup_power2_divisions
    if isinstance(roundup, tuple) and roundup[-1][0] is None:
        divisions = roundup[-1][1]
        listed = roundup[:-1]
        start = (listed[-1][0] or 0).bit_length() if listed else 0
        rest = tuple((1 << power, divisions) for power in range(start, ROUNDUP_INTERVALS))
        parsed = replace(parsed, roundup_power2_divisions=(*listed, *rest))
    text = str(parsed)
    assert _HARMLESS.fullmatch(text), text
    return text


def _env(summary: Summary, row: Row, pick: str) -> str:
    value = portable(row.settings)
    lines = [
        *_comment(summary, row, pick),
        *([WRITTEN_OUT] if value != row.settings else []),
        "# In a shell: set -a; . ./FILE; set +a      In Docker: docker run --env-file FILE …",
        f"{ENVIRONMENT_VARIABLE}={value}",
    ]
    return "\n".join(lines) + "\n"


def _shell(summary: Summary, row: Row, pick: str) -> str:
    return "\n".join([*_comment(summary, row, pick), _export(row)]) + "\n"


def _docker(summary: Summary, row: Row, pick: str) -> str:
    lines = [*_comment(summary, row, pick), f'ENV {ENVIRONMENT_VARIABLE}="{_quotable(row)}"']
    return "\n".join(lines) + "\n"


def _slurm(summary: Summary, row: Row, pick: str) -> str:
    lines = [
        *_comment(summary, row, pick),
        "# For the batch script, above srun. Not for sbatch --export, which splits values at commas.",
        _export(row),
    ]
    return "\n".join(lines) + "\n"


def _json(summary: Summary, row: Row, pick: str) -> str:
    conditions = summary.conditions
    document = {
        "study": summary.study,
        "trial": row.number,
        "pick": pick,
        "settings": row.settings,
        "obtained": str(row.measurement.obtained),
        "gpu": conditions.environment.gpu,
        "torch": conditions.environment.torch,
        "script": conditions.script,
        "environment": {ENVIRONMENT_VARIABLE: row.settings},
    }
    return json.dumps(document, indent=2) + "\n"


FORMS: Mapping[str, Callable[[Summary, Row, str], str]] = {
    "env": _env,
    "shell": _shell,
    "docker": _docker,
    "slurm": _slurm,
    "json": _json,
}
"""Name of a format → what renders it."""


def _export(row: Row) -> str:
    return f"export {ENVIRONMENT_VARIABLE}={shlex.quote(_quotable(row))}"


def _quotable(row: Row) -> str:
    """The settings as reported: within quotes `>` means nothing to a shell or to Docker."""
    assert _HARMLESS.fullmatch(row.settings.replace(">", "")), row.settings
    return row.settings


def _comment(summary: Summary, row: Row, pick: str) -> list[str]:
    """What this is, when and on what it was found, what it gains; every line a comment for sh and Docker."""
    shown = cells(summary, row)
    when = (row.finished or datetime.now()).strftime("%Y-%m-%d")
    change = f" ({shown.memory_change} against the defaults)" if shown.memory_change else ""
    lines = [
        f"CUDA allocator settings found by autotune: study {summary.study}, trial {row.number} ({pick})",
        f"{row.measurement.obtained} on {when}: {machine(summary)}",
        f"of: {subject(summary)}",
        f"peak reserved {shown.memory}{change}, {time_phrase(summary, row)}",
    ]
    if "garbage_collection_threshold" in row.settings:
        limit = summary.conditions.memory_limit_bytes
        lines.append(f"{NEEDS_FRACTION}{f' Found with a limit of {format_bytes(limit)}.' if limit else ''}")
    if not row.settings:
        lines.append("The defaults are best. The empty value is meant: it overrides what is set elsewhere.")
    return [f"# {plain(line)}" for line in lines]
