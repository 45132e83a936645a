"""`python -m autotune replay`, driven as a user drives it."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autotune.cli import main

DATA = Path(__file__).parents[1] / "data"
GNN, OOM, EXPANDABLE = (str(DATA / name) for name in ("gnn.npz", "oom.pickle.gz", "expandable.pickle.gz"))
GOLDEN = [json.loads(line) for line in (DATA / "gnn.jsonl").read_text().splitlines()]
"""What PyTorch's own allocator did with the same trace, release by release."""

RESULT_KEYS = [
    "settings", "engine", "outcome", "failed_operation", "peak_requested_bytes", "peak_allocated_bytes",
    "peak_active_bytes", "peak_reserved_bytes", "fragmentation", "num_device_alloc", "num_device_free",
    "num_alloc_retries", "operations", "seconds",
]  # fmt: skip


def replay(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """The real command in a process of its own."""
    command = [sys.executable, "-m", "autotune", "replay", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """The JSON answer, from within this process (starting one takes a second)."""
    capsys.readouterr()
    assert main(["replay", *arguments, "--json"]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


@pytest.mark.parametrize(
    "row", GOLDEN, ids=lambda row: f"{row['torch']}-{row['settings']}-{row['memory_fraction']}"
)
def test_replays_agree_with_pytorchs_own_allocator(
    row: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    fraction = ["--memory-fraction", str(row["memory_fraction"])] if row["memory_fraction"] else []
    found = document(capsys, GNN, "--settings", row["settings"], "--torch", row["torch"], *fraction)[
        "results"
    ][0]
    compared = set(row) - {"torch", "memory_fraction"}
    assert {name: found[name] for name in compared} == {name: row[name] for name in compared}


def test_json_has_one_result_for_each_setting_in_the_order_asked_with_the_promised_keys() -> None:
    asked = ["expandable_segments:True", "", "max_split_size_mb:128,expandable_segments:False"]
    done = replay(GNN, "--json", *(part for text in asked for part in ("--settings", text)))
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert list(answer) == ["trace", "results"]
    assert [result["settings"] for result in answer["results"]] == asked
    for result in answer["results"]:
        assert list(result)[: len(RESULT_KEYS)] == RESULT_KEYS


def test_settings_come_from_stdin_one_a_line_and_an_empty_line_is_the_defaults() -> None:
    done = replay(GNN, "--json", "--settings", "-", stdin="\nexpandable_segments:True\n")
    assert [result["settings"] for result in json.loads(done.stdout)["results"]] == [
        "",
        "expandable_segments:True",
    ]
    reserved = [result["peak_reserved_bytes"] for result in json.loads(done.stdout)["results"]]
    assert reserved == [13_444_841_472, 9_344_909_312]


def test_without_settings_the_recordings_own_are_replayed_and_said() -> None:
    done = replay(EXPANDABLE, "--json")
    (result,) = json.loads(done.stdout)["results"]
    assert (result["settings"], result["peak_reserved_bytes"]) == ("expandable_segments:True", 1_925_185_536)
    assert "the recording's own, expandable_segments:True" in done.stderr


def test_the_text_fits_80_columns_in_a_pipe_and_carries_the_self_check() -> None:
    done = replay(GNN, "--settings", "", "--settings", "expandable_segments:True", "--fit", "--explain")
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 80
    text = " ".join(done.stdout.split())
    assert "12.5 GiB" in text and "−30.5 %" in text and "fits in" in text and "cached" in text
    assert (
        "Self-check: the recorded run reserved 12.5 GiB, its own settings replayed 12.5 GiB (0.0 %)" in text
    )
    assert "Self-check" not in done.stderr
    assert "taken for an NVIDIA H200" in done.stderr


def test_a_memory_limit_is_a_size_and_a_fraction_is_of_the_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    by_size = document(capsys, GNN, "--memory-limit", "8GiB")
    by_share = document(capsys, GNN, "--memory-fraction", "0.5", "--gpu", "16GiB")
    assert by_size["trace"]["memory_limit_bytes"] == by_share["trace"]["memory_limit_bytes"] == 8 << 30
    assert by_size["results"][0]["outcome"] == by_share["results"][0]["outcome"] == "out_of_memory"


def test_fit_is_the_memory_in_which_the_trace_completes_and_two_mebibytes_less_is_too_little(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (result,) = document(capsys, GNN, "--settings", "", "--fit")["results"]
    fit = result["smallest_fit_bytes"]
    (within,) = document(capsys, GNN, "--settings", "", "--memory-limit", str(fit))["results"]
    (below,) = document(capsys, GNN, "--settings", "", "--memory-limit", str(fit - (2 << 20)))["results"]
    assert (within["outcome"], below["outcome"]) == ("completed", "out_of_memory")


def test_explain_accounts_for_every_reserved_byte(capsys: pytest.CaptureFixture[str]) -> None:
    (result,) = document(capsys, GNN, "--settings", "", "--explain")["results"]
    explanation = result["explanation"]
    kinds = ("live", "rounding", "split_remainder", "cached", "page_rounding")
    assert sum(explanation[f"{kind}_bytes"] for kind in kinds) == result["peak_reserved_bytes"]


def test_an_out_of_memory_snapshot_is_replayed_within_the_memory_that_run_had() -> None:
    done = replay(OOM, "--json", "--settings", "")
    answer = json.loads(done.stdout)
    (result,) = answer["results"]
    assert (result["outcome"], result["failed_operation"]) == ("out_of_memory", 2092)
    assert result["peak_reserved_bytes"] == answer["trace"]["memory_limit_bytes"] == 2_891_972_608
    assert answer["trace"]["self_check"]["difference"] == 0
    assert "could reserve at least 2.69 GiB" in done.stderr


def test_under_the_real_limit_expandable_segments_would_have_saved_that_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = ("--settings", "", "--settings", "expandable_segments:True", "--memory-fraction", "0.02")
    results = document(capsys, OOM, *asked)["results"]
    assert [result["outcome"] for result in results] == ["out_of_memory", "completed"]


def test_a_wrong_recording_is_announced_as_not_to_be_trusted(tmp_path: Path) -> None:
    snapshot = pickle.loads(gzip.decompress(Path(EXPANDABLE).read_bytes()))
    snapshot["allocator_settings"] = {"PYTORCH_CUDA_ALLOC_CONF": ""}
    path = tmp_path / "wrong.pickle"
    path.write_bytes(pickle.dumps(snapshot))
    done = replay(str(path), "--json")
    assert json.loads(done.stdout)["trace"]["self_check"]["trusted"] is False
    assert "do not trust these predictions" in done.stderr


def cut(path: Path) -> str:
    with np.load(GNN) as arrays:
        columns = {name: arrays[name] if name == "actions" else arrays[name][3000:] for name in arrays}
    np.savez_compressed(path, **columns)
    return str(path)


def test_a_trace_without_its_beginning_is_refused_unless_accepted_as_partial(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = cut(tmp_path / "cut.npz")
    assert main(["replay", path]) == 2
    sentence = capsys.readouterr().err
    assert "is cut at its beginning" in sentence and sentence.count("\n") == 1
    assert document(capsys, path, "--partial")["trace"]["blocks_alive_before"] > 0


class Hostile:
    """Pickles as a shell command."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (self.command,)


def bad_files(folder: Path) -> dict[str, bytes]:
    whole = gzip.decompress(Path(OOM).read_bytes())
    only_map = {"segments": [], "device_traces": [[]], "allocator_settings": {}}
    return {
        "empty": b"",
        "text": b"epoch,loss\n1,0.5\n",
        "foreign pickle": pickle.dumps({"state_dict": [1, 2, 3]}),
        "foreign archive": (DATA / "gnn.npz").read_bytes()[:20_000],
        "truncated": whole[: len(whole) // 2],
        "truncated gzip": Path(OOM).read_bytes()[:20_000],
        "corrupt": whole[:5000] + b"\xff" * 500 + whole[5500:],
        "no history": pickle.dumps(only_map),
        "hostile": pickle.dumps(Hostile(f"touch '{folder / 'touched'}'")),
        "hostile inside": pickle.dumps({"device_traces": [[Hostile(f"touch '{folder / 'touched'}'")]]}),
        "crashing": b"\x80\x04}(" + b")" + b"\x85" * 500_000 + b"K\x01u.",
    }


BAD_FILES = tuple(bad_files(Path()))


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_file_that_is_no_trace_gives_one_sentence_and_status_2(name: str, tmp_path: Path) -> None:
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(bad_files(tmp_path)[name])
    done = replay(str(path), "--settings", "", "--json")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("autotune: ") and done.stderr.count("\n") == 1, done.stderr
    assert "snapshot.pickle" in done.stderr
    assert not (tmp_path / "touched").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["/no/such/file"], "'/no/such/file' does not exist"),
        ([str(DATA)], "is not a file"),
        ([GNN, "--settings", "max_split_size_mb=128"], "is not name:value"),
        ([GNN, "--settings", "max_split_size_mb:5"], "max_split_size_mb:5"),
        ([GNN, "--settings", "max_splitsize_mb:128"], "no option of PyTorch's"),
        ([GNN, "--settings", "large_segment_size_mb:40", "--torch", "2.6"], "exists from torch 2.11 on"),
        (
            [GNN, "--settings", "", "--settings", "garbage_collection_threshold:2"],
            "garbage_collection_threshold:2",
        ),
        ([GNN, "--memory-limit", "much"], "'much' is not a size"),
        ([GNN, "--memory-limit", "0"], "not a size above zero"),
        ([GNN, "--memory-fraction", "1.5"], "1.5 is no share"),
        ([GNN, "--memory-fraction", "nan"], "nan is no share"),
        ([GNN, "--gpu", "B9000"], "'B9000' is neither"),
        ([GNN, "--torch", "newest"], "'newest' is not a torch version"),
        ([OOM, "--device", "3"], "no history of device 3"),
    ],
)
def test_a_bad_argument_gives_one_sentence_and_status_2(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", *arguments]) == 2
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    assert sentence in shown.err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux")
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_results_that_cannot_be_written_give_one_sentence(form: list[str]) -> None:
    command = [
        sys.executable,
        "-m",
        "autotune",
        "replay",
        GNN,
        "--settings",
        "",
        "--gpu",
        "H200",
        "--torch",
        "2.11",
    ]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*command, *form], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        1,
        "autotune: The results cannot be written: No space left on device.\n",
    )


def test_a_reader_that_goes_away_early_is_no_error() -> None:
    command = f"'{sys.executable}' -m autotune replay '{GNN}' --settings '' --explain"
    program = f"{command} | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0"
    assert "Traceback" not in done.stderr


def test_no_settings_on_stdin_are_refused() -> None:
    done = replay(GNN, "--settings", "-")
    assert done.returncode == 2
    assert "no settings on stdin" in done.stderr and done.stderr.count("\n") == 1


def test_settings_on_stdin_that_are_no_text_are_refused() -> None:
    command = [sys.executable, "-m", "autotune", "replay", GNN, "--settings", "-"]
    done = subprocess.run(command, input=b"\xff\xfe\x00", capture_output=True, check=False)
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr and done.stderr.count(b"\n") == 1
