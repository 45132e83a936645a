"""What is kept of a screening, in what order it is tried, and that it is kept whole or not at all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import optuna
import pytest
from optuna.storages import RDBStorage

from autotune.errors import StudyError
from autotune.measurement import Obtained
from autotune.report.stored import Conditions, Role, read_rows
from autotune.report.summary import summarise
from autotune.settings import AllocatorSettings
from autotune.study.book import load_study, open_study
from autotune.study.finalists import NO_NOISE, Noise, finalists, front_of, in_order
from autotune.study.predict import Prediction, Predictor
from autotune.study.screen import screen
from autotune.study.screened import Screened, load, screened_trace_digest, store
from autotune.study.space import SearchSpace
from autotune.study.storage import open_storage
from tests.fakes import H200, measurement
from tests.traces import varying

SPACE = SearchSpace(torch_version=(2, 14), limited=False, split_sizes_mb=(20, 40, 60))
CONDITIONS = Conditions(obtained=Obtained.REPLAYED, trace_sha256="a" * 64, environment=H200)


def prediction(text: str, memory: float, fit: float, seconds: float) -> Prediction:
    """A prediction with memory and smallest fit in GiB."""
    found = replace(measurement(text, reserved=memory, seconds=seconds), smallest_fit_bytes=int(fit * 2**30))
    return Prediction(settings=AllocatorSettings.parse(text), behaviour=text or "plain", measurement=found)


DEFAULTS = prediction("", 10, 9, 1.0)
LEAST = prediction("expandable_segments:True", 6, 8, 3.0)
NEAR = prediction("expandable_segments:True,large_segment_size_mb:22", 6.01, 8, 3.0)
FITS = prediction("max_split_size_mb:64", 12, 7, 4.0)
FAST = prediction("roundup_power2_divisions:8", 11, 10, 0.1)
BEATEN = prediction("max_split_size_mb:32", 13, 12, 9.0)
MEMBERS = (LEAST, NEAR, DEFAULTS, FAST, FITS, BEATEN)


@pytest.fixture
def storage(tmp_path: Path) -> RDBStorage:
    return open_storage(f"sqlite:///{tmp_path / 'autotune.db'}")


def screened(*members: Prediction) -> Screened:
    return Screened(num_settings=3000, num_behaviours=412, members=members)


def names(found: list[Prediction]) -> list[str]:
    return [str(one.settings) for one in found]


def test_the_front_holds_what_nothing_beats_in_all_three() -> None:
    assert front_of(MEMBERS) == [LEAST, DEFAULTS, FAST, FITS]


def test_the_least_memory_comes_first_and_noise_hides_what_is_near_it() -> None:
    members = [*MEMBERS, prediction("large_segment_size_mb:64", 6.0, 8.0, 2.999)]
    exact = in_order(members, DEFAULTS, limited=False, noise=NO_NOISE)
    assert str(exact[0].settings) == "large_segment_size_mb:64"
    noisy = in_order([*MEMBERS], DEFAULTS, limited=False, noise=Noise(seconds=0.01))
    assert noisy[0] is LEAST
    assert NEAR not in noisy


def test_what_is_tried_anyway_is_left_out_and_hides_its_neighbours() -> None:
    ordered = in_order(
        [*MEMBERS, NEAR], DEFAULTS, tried={LEAST.behaviour, "plain"}, limited=False, noise=Noise(seconds=0.1)
    )
    assert set(names(ordered)) == {"roundup_power2_divisions:8", "max_split_size_mb:64"}


def test_under_a_limit_what_fits_in_the_least_memory_comes_first() -> None:
    assert in_order(MEMBERS, DEFAULTS, limited=True)[0] is FITS


def test_finalists_have_a_smallest_fit_and_the_anchors_are_among_them() -> None:
    predictor = Predictor(varying(), torch_version=(2, 14), warmup_steps=2)
    anchors = [AllocatorSettings(), AllocatorSettings(expandable_segments=True)]
    found = finalists(predictor, SPACE, screen(predictor, SPACE, most=300), anchors=anchors)
    keys = {one.behaviour for one in found}
    assert {one.behaviour for one in predictor.predict_many(anchors)} <= keys
    assert len(keys) == len(found)
    for one in found:
        fit = one.measurement.smallest_fit_bytes
        assert fit is not None
        assert fit >= (one.measurement.peak_requested_bytes or 0)


def test_what_was_stored_is_loaded(storage: RDBStorage) -> None:
    store(storage, "train", CONDITIONS, SPACE, screened(*MEMBERS))
    found = load(storage, "train", CONDITIONS)
    assert found == screened(*MEMBERS)
    assert screened_trace_digest(storage, "train") == "a" * 64


def test_the_screening_is_a_study_of_replays_with_named_metrics_and_a_baseline(storage: RDBStorage) -> None:
    store(storage, "train", CONDITIONS, SPACE, screened(*MEMBERS))
    study = load_study(storage, "train.screen")
    assert study.metric_names == [
        "peak reserved (GiB)",
        "smallest memory it fits in (GiB)",
        "time in driver calls after warm-up (ms)",
    ]
    assert study.trials[0].values == pytest.approx([6.0, 8.0, 3000.0])
    assert {row.measurement.obtained for row in read_rows(study)} == {Obtained.REPLAYED}
    assert summarise(study).baseline.settings == ""  # type: ignore[union-attr]
    assert [row.role for row in read_rows(study)][:2] == [Role.EXPANDABLE, Role.SCREENED]


def test_reports_are_of_the_study_and_not_of_its_screening(storage: RDBStorage) -> None:
    open_study(storage, "train", CONDITIONS)
    store(storage, "train", CONDITIONS, SPACE, screened(*MEMBERS))
    assert load_study(storage, None).study_name == "train"


def test_a_screening_under_other_conditions_does_not_count_and_is_replaced(storage: RDBStorage) -> None:
    store(storage, "train", CONDITIONS, SPACE, screened(*MEMBERS))
    other = replace(CONDITIONS, trace_sha256="b" * 64)
    assert load(storage, "train", other) is None
    store(storage, "train", other, SPACE, screened(LEAST))
    assert load(storage, "train", other) == screened(LEAST)
    assert load(storage, "train", CONDITIONS) is None


@pytest.mark.parametrize(("method", "allowed"), [*(("set_user_attr", n) for n in range(3)), ("add_trial", 2)])
def test_a_screening_cut_short_does_not_count_and_is_replaced(
    method: str, allowed: int, storage: RDBStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, calls = getattr(optuna.Study, method), []

    def cut(*arguments: object, **more: object) -> None:
        if len(calls) == allowed:
            raise KeyboardInterrupt
        calls.append(arguments)
        original(*arguments, **more)

    with monkeypatch.context() as patch:
        patch.setattr(optuna.Study, method, cut)
        with pytest.raises(KeyboardInterrupt):
            store(storage, "train", CONDITIONS, SPACE, screened(*MEMBERS))
    assert load(storage, "train", CONDITIONS) is None
    store(storage, "train", CONDITIONS, SPACE, screened(*MEMBERS))
    assert load(storage, "train", CONDITIONS) == screened(*MEMBERS)


def test_a_study_of_somebody_else_in_its_place_is_refused_and_stays(storage: RDBStorage) -> None:
    open_study(storage, "train.screen", CONDITIONS)
    for call in (
        lambda: load(storage, "train", CONDITIONS),
        lambda: store(storage, "train", CONDITIONS, SPACE, screened(LEAST)),
    ):
        with pytest.raises(StudyError, match=r"'train\.screen', which .* has already; .*--engine off"):
            call()
    assert load_study(storage, "train.screen").trials == []
