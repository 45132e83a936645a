"""Running a file as `python FILE ARGUMENTS` would, inside this process."""

from __future__ import annotations

import ast
import builtins
import io
import os
import sys
import threading
import traceback
from importlib.machinery import SourceFileLoader
from types import CodeType, ModuleType, TracebackType


class Script:
    """A script as the module `__main__`."""

    def __init__(self, path: str, arguments: list[str]) -> None:
        self.path = path
        self.arguments = arguments
        self.file = os.path.abspath(path)
        self.last_line = 0
        """First line of the last top-level statement; an exit from there is no early one."""

    def run(self) -> None:
        """Execute the script, then wait for its threads. Whatever it raises is raised here."""
        code = self._compile()
        module = ModuleType("__main__")
        module.__dict__.update(
            __builtins__=builtins,
            __file__=self.file,  # multiprocessing's spawn finds the script by it
            __cached__=None,
            __package__=None,
            __spec__=None,
            __loader__=SourceFileLoader("__main__", self.file),
        )
        sys.modules["__main__"] = module
        sys.argv[:] = [self.path, *self.arguments]
        # Last on the path, so that the script can `import autotune` where that is not installed.
        sys.path[:] = [os.path.dirname(self.file), *sys.path, os.path.join(os.path.dirname(__file__), "shim")]
        exec(code, module.__dict__)
        for thread in threading.enumerate():
            if not thread.daemon and thread is not threading.current_thread():
                thread.join()

    def _compile(self) -> CodeType:
        with io.open_code(self.file) as file:
            source = file.read()
        tree = ast.parse(source, self.file)
        self.last_line = tree.body[-1].lineno if tree.body else 0
        # dont_inherit: this file's `from __future__` is not the script's.
        return compile(source, self.file, "exec", dont_inherit=True)

    def exited_early(self, exit_: SystemExit) -> bool:
        """Whether `sys.exit` was called before the script's last top-level statement."""
        frames = traceback.extract_tb(exit_.__traceback__)
        lines = [
            frame.lineno or 0 for frame in frames if frame.name == "<module>" and frame.filename == self.file
        ]
        return bool(lines) and lines[0] < self.last_line

    def print_exception(self, error: BaseException) -> None:
        """The traceback as Python prints it, without our own frames."""
        traceback.print_exception(type(error), error, self._own_frames(error.__traceback__))

    def _own_frames(self, frames: TracebackType | None) -> TracebackType | None:
        ours = os.path.dirname(__file__)
        while frames is not None and os.path.dirname(frames.tb_frame.f_code.co_filename) == ours:
            frames = frames.tb_next
        return frames
