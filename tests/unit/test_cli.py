"""The entry: one sentence for the user's mistakes, the right exit status, and no slow start."""

from __future__ import annotations

import subprocess
import sys

import pytest

from autotune.cli import COMMANDS, main


def test_an_unknown_command_is_refused_with_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["tune"])
    assert caught.value.code == 2
    assert "invalid choice: 'tune'" in capsys.readouterr().err


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
