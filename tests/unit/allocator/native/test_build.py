"""Building the stand-in: once, whole, by whoever comes first; and the sentences when it cannot be built."""

from __future__ import annotations

import platform
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from autotune.allocator.native import build
from autotune.errors import UsageError

pytestmark = pytest.mark.native


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty user cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "autotune"


@pytest.fixture
def fake_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script that is the only compiler on the path."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "gcc"
    script.write_text(
        "#!/bin/sh\necho 'memory.c: In function f:' >&2\necho 'memory.c:1: error: no' >&2\nexit 1\n"
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    return script


def sentence(raised: pytest.ExceptionInfo[UsageError]) -> str:
    text = str(raised.value)
    assert text.endswith("use --engine model.") and "\n" not in text
    return text


def on_other_machine(system: str, machine: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    with pytest.raises(UsageError) as raised:
        build.stand_in_environment(1)
    return sentence(raised)


def can_build() -> None:
    try:
        build.build()
    except UsageError as error:
        pytest.skip(str(error))


def test_it_is_built_once_and_then_found(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    can_build()
    environment = build.stand_in_environment(1 << 30)
    monkeypatch.setenv("PATH", "")  # no compiler any more
    assert build.stand_in_environment(1 << 30) == environment
    libraries = [Path(path) for path in environment["LD_PRELOAD"].split(" ")]
    assert [path.name for path in libraries] == ["libcuda.so.1", "libnvidia-ml.so.1"]
    assert all(cache in path.parents and path.stat().st_size > 0 for path in libraries)
    assert environment["STAND_IN_DEVICE_BYTES"] == str(1 << 30)


def test_changed_sources_are_built_anew(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    can_build()
    for source in build.SOURCES:
        (tmp_path / source).write_bytes((build.FOLDER / source).read_bytes())
    (tmp_path / "stand_in.h").write_text((tmp_path / "stand_in.h").read_text() + "\n/* changed */\n")
    first = build.build()
    monkeypatch.setattr(build, "FOLDER", tmp_path)
    assert build.build() != first
    assert len(list(cache.iterdir())) == 2


def test_builders_at_the_same_time_get_one_whole_folder(cache: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        try:
            folders = set(pool.map(lambda _: build.build(), range(4)))
        except UsageError as error:
            pytest.skip(str(error))
    assert list(cache.iterdir()) == list(folders)
    assert sorted(path.name for path in folders.pop().iterdir()) == sorted(build.LIBRARIES)


@pytest.mark.parametrize("unusable", ["file", "with space", "a:b"])
def test_a_cache_that_cannot_be_used_is_passed_over_for_a_private_temporary_folder(
    unusable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if unusable == "file":
        (tmp_path / unusable).write_text("not a folder")
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / unusable))
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(temporary))
    can_build()
    folder = build.build()
    assert temporary in folder.parents
    assert folder.parent.stat().st_mode & 0o077 == 0
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "with space"))
    with pytest.raises(UsageError) as raised:
        build.build()
    assert unusable in sentence(raised) and "XDG_CACHE_HOME" in str(raised.value)


def test_without_a_compiler_one_sentence_says_so(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UsageError) as raised:
        build.stand_in_environment(1)
    assert "needs a C compiler (cc, gcc, clang)" in sentence(raised)


def test_a_compiler_that_fails_is_quoted_and_leaves_nothing(cache: Path, fake_compiler: Path) -> None:
    with pytest.raises(UsageError) as raised:
        build.stand_in_environment(1)
    assert str(fake_compiler) in sentence(raised) and "memory.c:1: error: no" in str(raised.value)
    assert list(cache.iterdir()) == []


def test_on_other_machines_one_sentence_says_why_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "this is darwin on arm64" in on_other_machine("darwin", "arm64", monkeypatch)
    assert "this is win32 on AMD64" in on_other_machine("win32", "AMD64", monkeypatch)
    assert "this is linux on aarch64" in on_other_machine("linux", "aarch64", monkeypatch)
