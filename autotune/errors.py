"""The errors a user can meet. Each carries one sentence: what happened, with the value, and what to do.

AutotuneError                 anything we report without a traceback
├── UsageError                bad arguments or input: exit status 2
│   ├── SettingsError         an allocator setting that PyTorch would refuse
│   ├── TraceError            a file that is no usable allocation trace
│   └── StudyError            a storage or study that cannot be used as asked
└── WorkFailedError           the input was fine, the work was not: exit status 1
"""

from __future__ import annotations

import errno


def as_sentence(text: str) -> str:
    """The text with a full stop, so that another sentence may follow: what a script raises often has none."""
    text = text.rstrip()
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def is_full_disk(error: OSError) -> bool:
    """Whether it is the disk's fault, or a quota's, and no mistake of whoever named the file."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


class AutotuneError(Exception):
    """Base of all errors shown to the user as one sentence; `exit_status` is the process's."""

    exit_status = 1


class UsageError(AutotuneError):
    """The command line, a configuration file or an input file cannot be used."""

    exit_status = 2


class SettingsError(UsageError):
    """An allocator setting is unknown, malformed or out of range for the torch in question."""


class TraceError(UsageError):
    """A file is not a trace, is damaged, is cut short, or holds nothing to replay."""


class StudyError(UsageError):
    """A database cannot be opened, or a study in it was made under other conditions."""


class WorkFailedError(AutotuneError):
    """Everything asked for was valid, but nothing could be completed."""
