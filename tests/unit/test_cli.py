"""The entry: one sentence for the user's mistakes, the right exit status, and no slow start."""

from __future__ import annotations

import shlex
import subprocess
import sys

import pytest

from autotune.cli import COMMANDS, TAKE_A_SCRIPT, main


def test_an_unknown_command_is_refused_with_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["tune"])
    assert caught.value.code == 2
    assert "invalid choice: 'tune'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "part"),
    [
        ("run --script t.py --batch-size 8", "-- --batch-size 8"),
        ("run --script t.py --lr -3 --trials 5 --amp", "-- --lr -3 --amp"),
        ("run --script t.py --lr 3 --amp -- data --x=1", "-- --lr 3 --amp data --x=1"),
        ("record --script t.py --data 'a b' -o t.npz", "-- --data 'a b'"),
        ("fit --script t.py --arg '--n {}' --range 1:2 --lr=3", "-- --lr=3"),
        ("sweep max_split_size_mb --script t.py -b 8", "-- -b 8"),
        ("record --script t.py -o t.npz --out x", "-- --out x"),  # not short for --output
    ],
)
def test_who_forgets_the_dashes_learns_what_to_write(
    typed: str, part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(shlex.split(typed)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"autotune: `{typed.split()[0]}` has no option -")
    assert "the script's own arguments come last, after `--`" in line
    assert line.endswith(f"… {part}")


def test_the_commands_that_take_a_script_are_those_with_its_arguments(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = []
    for command in COMMANDS:
        with pytest.raises(SystemExit):
            main([command, "--help"])
        if "-- ARGS" in capsys.readouterr().out:
            found.append(command)
    assert set(found) == set(TAKE_A_SCRIPT)


def test_an_option_that_no_command_knows_is_refused_with_status_2(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["doctor", "--sicne"])
    assert caught.value.code == 2
    assert "unrecognized arguments: --sicne" in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    assert "usage: autotune" in capsys.readouterr().out


def test_help_loads_none_of_the_slow_libraries() -> None:
    code = (
        "import sys, contextlib\n"
        "from autotune.cli import COMMANDS, main\n"
        "for arguments in (['--help'], *([name, '--help'] for name in COMMANDS)):\n"
        "    with contextlib.suppress(SystemExit): main(arguments)\n"
        "slow = ('torch', 'optuna', 'numba', 'plotly', 'sqlalchemy')\n"
        "print([name for name in slow if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
