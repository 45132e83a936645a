"""What a study keeps in Optuna's database, and how to read it back.

Per trial, as user attributes: `role` (why it was run), `settings` (the environment string asked for) and
`measurement` (one JSON document, as text, so that optuna-dashboard does not cut it). Per study: `conditions`,
one JSON document that says under what conditions every trial of the study was run; `same_as`, settings that
were not run because a replay behaves as that of a trial; and on the study of a screening `screen_of`.

Format history of `conditions`:
    1 (2026-12)  first version.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from autotune.documents import from_document
from autotune.errors import StudyError
from autotune.measurement import Environment, Measurement, Obtained

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import FrozenTrial

CONDITIONS_FORMAT = 1
CONDITIONS, ROLE, SETTINGS, MEASUREMENT = "conditions", "role", "settings", "measurement"
SCREEN_OF, SAME_AS = "screen_of", "same_as"


class Role(StrEnum):
    """Why a trial was run."""

    DEFAULT = "default"
    """PyTorch's defaults: what everything else is compared with. Where steps are timed they run several
    times over a study; the first run that completes is the baseline, the others tell the noise."""
    EXPANDABLE = "expandable"
    """`expandable_segments:True` alone."""
    ENVIRONMENT = "environment"
    """What the user's environment sets already."""
    GIVEN = "given"
    """Asked for with `--settings`."""
    FOLKLORE = "folklore"
    """A string that documentation and forums recommend."""
    SCREENED = "screened"
    """Found by replaying many settings before the first trial."""
    SAMPLED = "sampled"
    """Proposed by the sampler."""
    CONFIRM = "confirm"
    """A finalist measured again, in rounds and with more steps. Such rows are on no front and picked by no
    rule: they say how sure the answer is."""


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """What all trials of a study have in common; a study made under other conditions is not continued."""

    obtained: Obtained
    script: str | None = None
    """Absolute path of the tuned script; None where only a trace is known."""
    script_sha256: str | None = None
    arguments: tuple[str, ...] = ()
    """The script's own arguments."""
    trace: str | None = None
    """Absolute path of the trace that trials replay; None where trials are measured."""
    trace_sha256: str | None = None
    """Digest of the operations in the trace (their times aside)."""
    environment: Environment = field(default_factory=Environment)
    memory_limit_bytes: int | None = None
    warmup_steps: int | None = None
    measured_steps: int | None = None
    seed: int | None = None
    without: tuple[str, ...] = ()
    """Options that were not to be used."""
    recorded_seconds: float | None = None
    """How long the recorded part of the run took on its GPU; None where that is not known."""
    recorded_steps: int | None = None
    """Steps of that part, which comes after warm-up; None where the recording does not tell steps."""
    notes: tuple[str, ...] = ()
    """Sentences that belong on every report of this study."""

    def to_json(self) -> dict[str, Any]:
        """The JSON document, with its format version."""
        return {"format": CONDITIONS_FORMAT, **asdict(self)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Conditions:
        """Conditions from their JSON document.

        Raises:
            ValueError, KeyError, TypeError: the document is of another format.
        """
        if document["format"] != CONDITIONS_FORMAT:
            raise ValueError(f"conditions format {document['format']!r} is not {CONDITIONS_FORMAT}")
        return from_document(cls, document)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One finished trial of a study."""

    number: int
    role: Role
    settings: str
    """The environment string asked for; empty for the defaults."""
    measurement: Measurement
    finished: datetime | None = None

    @property
    def completed(self) -> bool:
        """True when the trial ran to its end, so that its numbers may be compared."""
        return self.measurement.completed


def read_conditions(study: Study) -> Conditions:
    """The conditions that a study was made under.

    Raises:
        StudyError: the study is not one of autotune's, or is of a newer format.
    """
    document = study.user_attrs.get(CONDITIONS)
    if document is None:
        raise StudyError(f"Study '{study.study_name}' was not made by autotune; name another.")
    try:
        return Conditions.from_json(json.loads(document))
    except (ValueError, KeyError, TypeError) as error:
        raise StudyError(
            f"Study '{study.study_name}' was written by another version of autotune ({error}); "
            "use that version, or start anew with --study NEWNAME."
        ) from error


def read_rows(study: Study) -> list[Row]:
    """The study's finished trials, by number; trials that something else added are left out."""
    rows = (_row(trial) for trial in study.get_trials(deepcopy=False) if trial.state.is_finished())
    return [row for row in rows if row is not None]


def searched(rows: Sequence[Row]) -> list[Row]:
    """Rows that tried settings: without confirmations, and without repetitions of the defaults."""
    done = next((row.number for row in rows if row.role is Role.DEFAULT and row.completed), None)
    return [
        row
        for row in rows
        if row.role is not Role.CONFIRM
        and (row.role is not Role.DEFAULT or done is None or row.number <= done)
    ]


def confirmation(rows: Sequence[Row]) -> list[Row]:
    """The latest confirmation. One after which the search went on counts no longer: its runs and newer ones
    were not made in turn.
    """
    last = max((row.number for row in rows if row.role is not Role.CONFIRM), default=-1)
    return [row for row in rows if row.number > last]


def read_same_as(study: Study) -> dict[str, int]:
    """Settings that were not run → number of the trial that they behave like."""
    try:
        found = json.loads(study.user_attrs.get(SAME_AS, "{}"))
        return {str(settings): int(number) for settings, number in found.items()}
    except (ValueError, TypeError, AttributeError, OverflowError):
        return {}  # a remark of the report, which does without


def _row(trial: FrozenTrial) -> Row | None:
    attributes = trial.user_attrs
    try:
        return Row(
            number=trial.number,
            role=Role(attributes[ROLE]),
            settings=_text(attributes[SETTINGS]),
            measurement=Measurement.from_json(json.loads(attributes[MEASUREMENT])),
            finished=trial.datetime_complete,
        )
    except (KeyError, ValueError, TypeError, AttributeError):
        return None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value
