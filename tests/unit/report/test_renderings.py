"""Terminal, page, dashboard note and figures say the same, and obey nothing that a name contains."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

import pytest

from autotune.measurement import Obtained, Outcome
from autotune.report.board import render_note
from autotune.report.figures import pair_figures, space_figure
from autotune.report.matters_text import shortage_sentences
from autotune.report.page import render_page
from autotune.report.shortage import Fit, Shortage
from autotune.report.stored import Role, Row
from autotune.report.summary import Summary, document
from autotune.report.terminal import notable, print_report
from autotune.report.wording import verdict
from tests.fakes import H200, measurement, row, summary
from tests.terminal import printed

HOSTILE = '"><script>alert(1)</script>\x1b[31m\n# | [red]'


def text(found: Summary, width: int = 80) -> str:
    return printed(lambda console: print_report(found, console), width)


def measured(number: int, settings: str, role: Role, reserved: float, seconds: float) -> Row:
    steps = [seconds, seconds * 0.9, seconds * 1.1]
    found = measurement(settings, reserved=reserved, seconds=steps, obtained=Obtained.MEASURED)
    return row(number, settings, role, measured=found)


@pytest.fixture
def study() -> Summary:
    failed = measurement(
        obtained=Obtained.MEASURED, outcome=Outcome.OUT_OF_MEMORY, reason="No room for 2 GiB."
    )
    listed = "roundup_power2_divisions:[1:1,2:8,>:8],large_segment_size_mb:64"
    return summary(
        measured(0, "", Role.DEFAULT, 16.0, 0.1),
        measured(1, "expandable_segments:True", Role.EXPANDABLE, 6.0, 0.101),
        measured(2, "max_split_size_mb:64", Role.ENVIRONMENT, 20.0, 0.2),
        measured(3, listed, Role.SAMPLED, 8.0, 0.09),
        row(4, "max_split_size_mb:32", measured=failed),
        obtained=Obtained.MEASURED,
    )


def test_the_table_shows_defaults_expandable_environment_recommended_and_front(study: Summary) -> None:
    labels = {entry.number: names for names, entry in notable(study)}
    assert labels == {
        0: ["default"],
        1: ["expandable", "recommended", "front"],
        2: ["environment"],
        3: ["front"],
    }


def test_the_text_fits_80_columns_but_for_the_line_to_copy(study: Summary) -> None:
    for line in text(study).splitlines():
        assert len(line) <= 80 or line.startswith("  PYTORCH_CUDA_ALLOC_CONF=")


def test_the_text_has_memory_spread_changes_and_how_it_was_obtained(study: Summary) -> None:
    found = text(study, 120)
    machine = ("Measured", "NVIDIA H200", "driver 580.95.05", "torch 2.14.1")
    for part in (*machine, "16.0 GiB", "6.00 GiB", "−62.5 %", "100 ms", "± 10 ms", "+1.0 %"):
        assert part in found, part


def test_failures_and_start_up_cost_are_listed(study: Summary) -> None:
    found = text(study, 120)
    assert "Trial 4 out of memory: max_split_size_mb:32. No room for 2 GiB." in found
    assert "Starting a worker took 500 ms a trial (median)." in found


def test_the_line_to_copy_is_whole(study: Summary) -> None:
    assert "  PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n" in text(study, 40)


@pytest.mark.parametrize("obtained", [Obtained.REPLAYED, Obtained.ESTIMATED])
def test_what_was_not_measured_is_never_called_measured(obtained: Obtained) -> None:
    found = summary(row(0, "", Role.DEFAULT, measured=measurement(obtained=obtained)), obtained=obtained)
    for rendering in (text(found), render_page(found).split("<script")[0], render_note(found)):
        words = " ".join(rendering.lower().split())
        assert str(obtained) in words
        assert "measured:" not in words
        assert "the third number is the time spent in driver calls" in words


def test_a_gpu_named_by_its_size_has_that_said_once() -> None:
    phantom = replace(H200, gpu="GPU of 80 GiB", device_total_bytes=80 << 30, driver=None)
    found = summary(row(0, "", Role.DEFAULT), environment=phantom)
    assert "\nGPU of 80 GiB, torch 2.14.1." in text(found)
    assert "NVIDIA H200, 139.8 GiB, driver" in text(summary(row(0, "", Role.DEFAULT)))


def replayed(**conditions: object) -> Summary:
    return summary(
        row(0, "", Role.DEFAULT, measured=measurement(reserved=10, seconds=0.000702)),
        row(1, "a:1", Role.FOLKLORE, measured=measurement("a:1", reserved=6, seconds=0.00149)),
        **conditions,
    )


@pytest.mark.parametrize(
    ("conditions", "scale"),
    [
        ({"recorded_steps": 20, "recorded_seconds": 0.745}, " in 20 steps, 0.2 % of the recorded 745 ms"),
        ({"recorded_steps": 1, "recorded_seconds": 0.745}, " in 1 step, 0.2 % of the recorded 745 ms"),
        ({"recorded_seconds": 0.745}, " after warm-up, 0.2 % of the recorded 745 ms"),
    ],
)
def test_driver_time_in_a_sentence_has_its_scale(conditions: dict[str, object], scale: str) -> None:
    words = " ".join(text(replayed(**conditions)).split())
    assert words.count(f"driver time 1.49 ms (+788 µs){scale}") == 2  # folklore and verdict


def test_of_an_estimate_the_share_of_the_run_is_not_known() -> None:
    found = summary(
        row(0, "", Role.DEFAULT, measured=measurement(seconds=0.0, obtained=Obtained.ESTIMATED)),
        row(1, "a:1", measured=measurement(reserved=6, seconds=0.00149, obtained=Obtained.ESTIMATED)),
        obtained=Obtained.ESTIMATED,
        recorded_steps=20,
    )
    assert verdict(found).endswith("driver time 1.49 ms (+1.49 ms) in 20 steps.")


def out_of_memory(number: int, settings: str = "", role: Role = Role.DEFAULT, *, adapts: bool = True) -> Row:
    found = measurement(settings, outcome=Outcome.OUT_OF_MEMORY, reason="No memory.")
    return row(number, settings, role, measured=replace(found, may_adapt=adapts))


def test_where_the_defaults_do_not_fit_the_cost_of_what_does_is_said() -> None:
    found = summary(
        out_of_memory(0),
        row(1, "a:1", measured=measurement(reserved=6, seconds=0.381)),
        recorded_seconds=0.941,
    )
    assert verdict(found) == (
        "Use trial 1: peak reserved 6.00 GiB, driver time 381 ms after warm-up, 40.5 % of the recorded 941 ms"
        "; the defaults end by replay: out of memory."
    )


def test_what_a_replay_cannot_know_of_workspaces_is_said_once() -> None:
    rows = [out_of_memory(n, f"a:{n}" if n else "") for n in range(8)]
    rows.append(out_of_memory(8, "a:8", adapts=False))
    words = " ".join(text(summary(*rows)).split())
    assert words.count("fall back to a smaller one") == 1
    assert "did not fit in trial 0, 1, 2, 3, 4, 5 and 2 more is freed at once" in words
    assert "fall back" not in text(summary(out_of_memory(0, adapts=False)))


def test_allocation_retries_decide_under_a_limit_and_are_shown() -> None:
    found = measurement(reserved=9, seconds=[0.1] * 4, obtained=Obtained.MEASURED)
    retried = replace(found, num_alloc_retries=2, step_alloc_retries=(1, 1, 0, 0, 0), warmup_steps=1)
    calm = replace(found, num_alloc_retries=0, step_alloc_retries=(0, 0, 0, 0, 0), warmup_steps=1)
    study = summary(
        row(0, "", Role.DEFAULT, measured=retried),
        row(1, "a:1", Role.GIVEN, measured=calm),
        obtained=Obtained.MEASURED,
        memory_limit_bytes=10 << 30,
    )
    assert text(study).count("2 retries") == 1
    assert "0 retries" not in text(study)
    trials = document(study)["trials"]
    assert [(one["num_alloc_retries"], one["steps_with_retries"]) for one in trials] == [(2, 1), (0, 0)]
    assert "the fewest steps with allocation retries (0)" in " ".join(text(study).split())


def test_every_rendering_says_why(study: Summary) -> None:
    sentence = f"Why: {document(study)['why']}"
    assert "as fast as the defaults (up to " in sentence
    assert sentence in " ".join(text(study).split())
    assert sentence in render_page(study)
    assert sentence in render_note(study)


def test_where_nothing_fits_the_way_out_is_said_last_and_on_the_page() -> None:
    found = summary(out_of_memory(0), memory_limit_bytes=2 << 30)
    missing = Shortage(
        live_bytes=1 << 30,
        memory_limit_bytes=2 << 30,
        fits=(Fit(settings="a:1", smallest_fit_bytes=3 << 30), Fit(settings="", smallest_fit_bytes=4 << 30)),
        cut_short=False,
    )
    words = " ".join(printed(lambda console: print_report(found, console, missing)).split())
    assert "Nothing that was tried fits into the limit of 2.00 GiB" in words
    way_out = (
        "By replay it completes in 3.00 GiB with a:1, the least of the 2 settings looked at, 4.00 GiB with "
        "the defaults: give --memory-limit 3072MiB or more"
    )
    assert way_out in words
    assert words.endswith("smaller batches, activation checkpointing, fewer copies.")
    assert way_out in render_page(found, missing)
    assert document(found, missing)["shortage"]["fits"][0]["smallest_fit_bytes"] == 3 << 30


def test_a_way_out_fits_what_is_known() -> None:
    none = Shortage(live_bytes=3 << 30, memory_limit_bytes=2 << 30, fits=(), cut_short=True)
    words = " ".join(shortage_sentences(none))
    assert "more than the limit: no setting can help" in words
    assert "The recorded run itself ran out of memory" in words
    whole = replace(none, memory_limit_bytes=None, fits=(Fit(settings="", smallest_fit_bytes=4 << 30),))
    assert (
        "4.00 GiB with the defaults, the least of what was looked at: that much has to be free"
        in " ".join(shortage_sentences(whole))
    )


def test_equal_rows_of_the_front_are_shown_once() -> None:
    same = [row(n, f"max_split_size_mb:{n}", measured=measurement(reserved=5)) for n in range(20, 30)]
    found = summary(row(0, "", Role.DEFAULT), *same)
    assert len(found.front) == 10
    assert len([names for names, _ in notable(found) if "front" in names]) == 1


def test_a_study_in_which_nothing_completed_still_reports() -> None:
    failed = row(0, "", Role.DEFAULT, measured=measurement(outcome=Outcome.CRASHED, reason="No data."))
    found = summary(failed)
    assert "nothing to recommend" in text(found)
    assert "No data." in text(found)
    assert "nothing to recommend" in render_page(found)
    assert document(found)["recommended"] is None
    assert document(summary())["baseline"] is None


def test_notes_and_tenants_are_said_once() -> None:
    crowded = replace(H200, tenants=("42 python (3 GiB)",))
    rows = [
        row(
            n,
            "",
            Role.DEFAULT,
            measured=replace(measurement(), notes=("Mind the gap.",), environment=crowded),
        )
        for n in range(3)
    ]
    found = " ".join(text(summary(*rows, notes=("From the trace.",))).split())
    for sentence in ("Mind the gap.", "From the trace.", "42 python (3 GiB)"):
        assert found.count(sentence) == 1


def hostile() -> Summary:
    rows = (
        row(0, "", Role.DEFAULT),
        row(1, "max_split_size_mb:32", measured=measurement(outcome=Outcome.CRASHED, reason=HOSTILE)),
        row(2, "expandable_segments:True", measured=measurement(reserved=5)),
    )
    environment = replace(H200, gpu=HOSTILE)
    return summary(
        *rows, study=HOSTILE, script=HOSTILE, arguments=(HOSTILE,), notes=(HOSTILE,), environment=environment
    )


def test_the_page_runs_no_script_of_a_name() -> None:
    class Parser(HTMLParser):
        scripts = 0

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            self.scripts += tag == "script"

    def count(found: Summary) -> int:
        parser = Parser()
        parser.feed(render_page(found))
        return parser.scripts

    assert count(hostile()) == count(summary(row(0, "", Role.DEFAULT)))
    assert "<script>alert" not in render_page(hostile())


def test_the_page_needs_no_network(study: Summary) -> None:
    page = render_page(study)
    assert "<script src" not in page
    assert "<link" not in page


def test_a_terminal_obeys_no_name() -> None:
    found = text(hostile())
    assert "\x1b" not in found
    assert "[red]" in found


def test_the_note_obeys_no_name() -> None:
    note = render_note(hostile())
    assert "<script>" not in note
    assert "\x1b" not in note
    assert all(line.count("|") - line.count("\\|") in (0, 6) for line in note.splitlines())


def test_figures_carry_units_and_every_completed_trial(study: Summary) -> None:
    figures = [space_figure(study), *pair_figures(study)]
    assert len(figures) == 4
    for figure in figures:
        assert sum(len(trace.x) for trace in figure.data) == 4
    assert "peak reserved (GiB)" in figures[1].layout.xaxis.title.text
    assert "step time (ms)" in figures[2].layout.yaxis.title.text


def test_the_json_document_has_the_agreed_keys(study: Summary) -> None:
    found = document(study)
    assert list(found) == [
        "study",
        "script",
        "obtained",
        "environment",
        "memory_limit_bytes",
        "notes",
        "baseline",
        "recommended",
        "why",
        "front",
        "trials",
        "confirmed",
        "matters",
        "shortage",
    ]
    assert list(found["trials"][0]) == [
        "number",
        "role",
        "settings",
        "outcome",
        "obtained",
        "metrics",
        "num_alloc_retries",
        "steps_with_retries",
        "on_front",
        "steps",
    ]
    assert set(found["trials"][0]["metrics"]) == {"peak_reserved_bytes", "fragmentation", "step_seconds"}
    assert found["trials"][4]["metrics"] == {}
    assert (found["baseline"], found["recommended"], found["front"]) == (0, 1, [1, 3])
