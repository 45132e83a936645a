"""Dataclasses from JSON documents: right types pass, everything else is one ValueError."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pytest

from autotune.documents import from_document
from autotune.measurement import Environment, Measurement, Obtained
from autotune.report.stored import Conditions
from tests.fakes import H200, measurement


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True, kw_only=True)
class Inner:
    size: int = 0


@dataclass(frozen=True, kw_only=True)
class Outer:
    name: str
    share: float | None = None
    sizes: tuple[int, ...] = ()
    flag: bool = False
    colour: Colour = Colour.RED
    inner: Inner = Inner()


def test_a_document_with_the_right_types_is_read_and_unknown_names_are_passed_over() -> None:
    found = from_document(
        Outer, {"name": "a", "share": 1, "sizes": [1, 2], "colour": "red", "inner": {"size": 3}, "new": 1}
    )
    assert found == Outer(name="a", share=1, sizes=(1, 2), inner=Inner(size=3))


@pytest.mark.parametrize(
    "document",
    [
        None, [], {}, {"name": 1}, {"name": "a", "share": "x"}, {"name": "a", "share": float("nan")},
        {"name": "a", "sizes": [1.5]}, {"name": "a", "sizes": 3}, {"name": "a", "sizes": [None]},
        {"name": "a", "flag": 1}, {"name": "a", "colour": "blue"}, {"name": "a", "colour": []},
        {"name": "a", "inner": [1]}, {"name": "a", "inner": {"size": True}},
        {"name": "a", "inner": {"size": 10**400}},
    ],
)  # fmt: skip
def test_anything_else_is_refused(document: Any) -> None:
    with pytest.raises(ValueError, match=r"is no|missing"):
        from_document(Outer, document)


def test_what_is_stored_is_read_back() -> None:
    one = measurement("a:1", seconds=[0.1, 0.2], obtained=Obtained.MEASURED)
    assert Measurement.from_json(json.loads(json.dumps(one.to_json()))) == one
    conditions = Conditions(
        obtained=Obtained.MEASURED, arguments=("--a", "1"), environment=H200, recorded_seconds=1.5,
        notes=("n",),
    )  # fmt: skip
    assert Conditions.from_json(json.loads(json.dumps(conditions.to_json()))) == conditions


@pytest.mark.parametrize(
    ("name", "value"), [("script", 1), ("recorded_seconds", []), ("notes", [1]), ("trace", {})]
)
def test_conditions_of_another_type_are_refused(name: str, value: object) -> None:
    document = {**Conditions(obtained=Obtained.REPLAYED, environment=Environment()).to_json(), name: value}
    with pytest.raises(ValueError, match=name):
        Conditions.from_json(document)
