"""Studies written down as TOML."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.errors import UsageError
from autotune.study.config import load_study_file

STUDIES = Path(__file__).parents[3] / "studies"


def write(folder: Path, text: str) -> Path:
    path = folder / "study.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("path", sorted(STUDIES.glob("*.toml")), ids=lambda path: path.name)
def test_every_study_of_ours_loads_and_its_script_exists(path: Path) -> None:
    found = load_study_file(path)
    assert found.script is not None
    assert found.script.is_file()


def test_there_is_a_study_for_every_training_objective() -> None:
    names = {path.stem for path in STUDIES.glob("*.toml")}
    assert {"transformer_varlen", "cnn_multires", "gan"} <= names


def test_the_script_is_relative_to_the_file(tmp_path: Path) -> None:
    found = load_study_file(write(tmp_path, 'script = "train.py"\nargs = ["--x"]\ntrials = 7\n'))
    assert (found.script, found.args, found.trials) == (tmp_path / "train.py", ("--x",), 7)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("trails = 60", "'trails' is no key of a study; .*trials"),
        ('trials = "60"', "trials = '60' is not a whole number"),
        ("trials = true", "trials = True is not a whole number"),
        ('args = "--x"', "args = '--x' is not a list of texts"),
        ("args = [1]", r"args = \[1\] is not a list of texts"),
        ('memory_limit = "lots"', "'lots' is not a size"),
        ('script = "a.py"\ntrace = "b.npz"', "both a script and a trace"),
        ("trials = = 3", "is not TOML"),
        ('early_stop = "no"', "early_stop = 'no' is not true or false"),
        ("early_stop = 0", "early_stop = 0 is not true or false"),
    ],
)
def test_what_is_not_understood_is_refused_with_key_and_value(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        load_study_file(write(tmp_path, text))


def test_a_file_says_how_to_search(tmp_path: Path) -> None:
    text = 'script = "train.py"\nengine = "off"\nsampler = "random"\nearly_stop = false\n'
    found = load_study_file(write(tmp_path, text))
    assert (found.engine, found.sampler, found.early_stop) == ("off", "random", False)


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        load_study_file(tmp_path / "none.toml")
