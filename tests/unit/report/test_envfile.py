"""Exported files mean the same to sh, to Docker's env-file reader, and to torch."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path

import pytest

from autotune.report.envfile import FORMS, portable, render
from autotune.report.stored import Role, Row
from autotune.report.summary import Summary
from autotune.settings import AllocatorSettings
from autotune.study.space import SearchSpace
from tests.fakes import measurement, row, summary

NAME = "PYTORCH_CUDA_ALLOC_CONF"
SETTINGS = (
    "expandable_segments:True",
    "max_split_size_mb:128,garbage_collection_threshold:0.8",
    "roundup_power2_divisions:[1:1,2:8,>:8],large_segment_size_mb:64",
    "roundup_power2_divisions:[1:4,2:4,4:4,8:1,>:1],expandable_segments:True",
    "roundup_power2_divisions:[256:1,512:2,1024:4,2048:8,>:8]",
    "",
)


def export(settings: str, form: str, **names: str) -> str:
    found = study(settings, **names)
    return render(found, found.rows[-1], pick="balanced", form=form)


def study(settings: str, name: str = "train", script: str = "/home/me/train.py") -> Summary:
    chosen: Row = row(1, settings, measured=measurement(settings, reserved=5))
    return summary(row(0, "", Role.DEFAULT), chosen, study=name, script=script)


def sourced(text: str, folder: Path, *, automatic: bool) -> str | None:
    """What a program sees that `sh` starts after sourcing the text."""
    (folder / "best.env").write_text(text)
    before, after = ("set -a; ", "; set +a") if automatic else ("", "")
    command = f"unset {NAME}; {before}. ./best.env{after}; env"
    done = subprocess.run(["sh", "-euc", command], cwd=folder, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert [entry.name for entry in folder.iterdir()] == ["best.env"]
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line).get(NAME)


def docker_env_file(text: str) -> dict[str, str]:
    """As `docker run --env-file` reads it: comments begin with #, everything after = is the value."""
    lines = [line.lstrip() for line in text.splitlines()]
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def same(one: str, other: str) -> bool:
    return AllocatorSettings.parse(one).canonical() == AllocatorSettings.parse(other).canonical()


@pytest.mark.parametrize("settings", SETTINGS)
def test_an_env_file_says_the_same_to_sh_and_to_docker(settings: str, tmp_path: Path) -> None:
    text = export(settings, "env")
    assert list(docker_env_file(text)) == [NAME]
    assert sourced(text, tmp_path, automatic=True) == docker_env_file(text)[NAME]
    assert same(docker_env_file(text)[NAME], settings)


@pytest.mark.parametrize("form", ["shell", "slurm"])
@pytest.mark.parametrize("settings", SETTINGS)
def test_shell_formats_set_the_variable_for_programs(settings: str, form: str, tmp_path: Path) -> None:
    found = sourced(export(settings, form), tmp_path, automatic=False)
    assert found is not None
    assert same(found, settings)


def test_the_docker_format_is_one_env_instruction() -> None:
    lines = [line for line in export(SETTINGS[2], "docker").splitlines() if not line.startswith("#")]
    assert len(lines) == 1
    assert lines[0].startswith(f'ENV {NAME}="')


def test_the_json_format_has_settings_and_variable() -> None:
    found = json.loads(export(SETTINGS[2], "json"))
    assert found["settings"] == SETTINGS[2]
    assert same(found["environment"][NAME], SETTINGS[2])


@pytest.mark.parametrize("form", sorted(set(FORMS) - {"json"}))
@pytest.mark.parametrize(
    "name", ["a\nexport EVIL=1", "a\r\nEVIL=1", "$(touch x)", "`touch x`", "'; touch x; '", "\x1b[2J"]
)
def test_no_name_becomes_a_command(name: str, form: str, tmp_path: Path) -> None:
    text = export("expandable_segments:True", form, name=name, script=f"/tmp/{name}.py")
    assert len([line for line in text.splitlines() if line and not line.startswith("#")]) == 1
    if form != "docker":
        assert sourced(text, tmp_path, automatic=True) == "expandable_segments:True"


def test_exporting_the_defaults_sets_the_variable_empty_and_says_why() -> None:
    text = export("", "env")
    assert text.endswith(f"\n{NAME}=\n")
    assert "defaults are best" in text


@pytest.mark.parametrize("form", ["shell", "docker", "slurm", "json"])
def test_what_can_quote_has_the_settings_as_they_are_reported(form: str) -> None:
    assert SETTINGS[4] in export(SETTINGS[4], form)


def test_an_env_file_says_why_its_list_is_written_out() -> None:
    assert "`>` (and all larger sizes) is written out" in export(SETTINGS[4], "env")
    assert "written out" not in export(SETTINGS[0], "env")


@pytest.mark.parametrize("seed", range(200))
def test_writing_lists_out_changes_nothing_for_any_release(seed: int) -> None:
    chance = random.Random(seed)
    sizes = sorted(chance.sample(range(16), chance.randint(1, 6)))
    listed = [f"{1 << size}:{chance.choice([1, 2, 4, 8])}" for size in sizes]
    # As the search space does, so that releases before 2.10 read the list alike.
    listed += [f">:{listed[-1].split(':')[1]}"] if chance.random() < 0.7 else []
    text = f"roundup_power2_divisions:[{','.join(listed)}]"
    before, after = AllocatorSettings.parse(text), AllocatorSettings.parse(portable(text))
    assert ">" not in portable(text)
    for version in ((2, 4), (2, 9), (2, 10), (2, 15)):
        assert before.roundup_divisions(version) == after.roundup_divisions(version)


def test_torch_accepts_every_exported_value() -> None:
    torch = pytest.importorskip("torch")
    accept = getattr(torch._C, "_accelerator_setAllocatorSettings", None)
    if accept is None:
        pytest.skip("this torch is older than 2.10")
    space = SearchSpace(torch_version=(2, 14), limited=True)
    for number, settings in enumerate(space.grid()):
        if number > 3000:
            break
        if number % 37 == 0:
            accept(portable(str(settings)))
    accept("")
