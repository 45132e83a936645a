"""The child: one run of the script, from its settings to its answer.

Once enough steps are done the process ends at once, by `os._exit` in the middle of the script, so a script
that catches every exception cannot stop it. Exit handlers and `finally` blocks do not run: at that point they
might save a half-trained model over a good one. A script that ends by itself is treated alike.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import sys
import threading
import time
from typing import Any, NoReturn

from .processes import die_with_parent
from .script import Script
from .steps import Boundary, Steps

SETTINGS_VARIABLE = "PYTORCH_CUDA_ALLOC_CONF"
OTHER_SETTINGS_VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")
RECORDING_TIME_SHARE = 0.9
"""A recording that used this share of its time ends with what it has, rather than with nothing."""
RECORDED_OUTCOMES = ("completed", "out_of_memory")
"""A recording up to the moment at which memory ran out is worth keeping; one of a crash is not."""
REASON_LENGTH = 400


def run(request: dict[str, Any], answer_pipe: int, launcher: int) -> NoReturn:
    """Run one request in this process and end it.

    The request's fields: `script`, `arguments`, `seed`, `settings` (an environment string), `environment`
    (name → value; None removes), `memory_limit_bytes`, `memory_fraction`, `warmup_steps`, `measured_steps`,
    `timeout_seconds`, `device` (`cuda`, `phantom` or `cpu`), `device_total_bytes` (on the CPU: of the
    pretended GPU), `selected` (on the phantom: share of a mask that is taken where it is not known),
    `record` (path of a trace file to write), `log`, `folder` (to run in), `notes` (for the recording's).
    """
    apply_environment(request)
    Run(request, answer_pipe).run()


def run_in_fresh_process(request: dict[str, Any], answer_pipe: int, launcher: int) -> NoReturn:
    """Replace this process by a fresh interpreter that runs the request."""
    apply_environment(request)
    request_file = os.memfd_create("request") if hasattr(os, "memfd_create") else _unnamed_file()
    os.write(request_file, json.dumps(request).encode())
    for descriptor in (request_file, answer_pipe):
        os.set_inheritable(descriptor, True)
    command = [
        sys.executable,
        os.path.dirname(__file__),
        "once",
        *map(str, (request_file, answer_pipe, launcher)),
    ]
    os.execv(sys.executable, command)


def main(arguments: list[str]) -> NoReturn:
    """The fresh interpreter's side of `run_in_fresh_process`."""
    request_file, answer_pipe, launcher = map(int, arguments)
    os.set_inheritable(answer_pipe, False)
    die_with_parent(launcher)
    with os.fdopen(request_file, "rb") as file:
        file.seek(0)
        request = json.loads(file.read())
    run(request, answer_pipe, launcher)


def _unnamed_file() -> int:
    import tempfile

    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def apply_environment(request: dict[str, Any]) -> None:
    """Set what the request asks for, and the settings in the one variable that every torch reads.

    From torch 2.10 on the other name is read too, though this one wins; older ones warn about it.
    """
    settings = request["settings"] or None
    variables = {
        **dict.fromkeys(OTHER_SETTINGS_VARIABLES),
        **request["environment"],
        SETTINGS_VARIABLE: settings,
    }
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _setter(torch: Any) -> Any:
    """The function that parses a settings string after import: torch ≥ 2.10, or before."""
    for name in ("_accelerator_setAllocatorSettings", "_cuda_cudaCachingAllocator_set_allocator_settings"):
        setter = getattr(torch._C, name, None)
        if setter is not None:
            return setter
    return None


def can_apply_settings(torch: Any) -> bool:
    """Whether settings can still be given after `import torch`; always so without CUDA, where none matter."""
    return not hasattr(torch._C, "_cuda_init") or _setter(torch) is not None


class Run:
    """One run of a script."""

    def __init__(self, request: dict[str, Any], answer_pipe: int) -> None:
        self._request = request
        self._pipe = answer_pipe
        self._pid = os.getpid()
        self._ending = threading.Lock()
        self._steps: Any = None

    def run(self) -> NoReturn:
        """Prepare, execute, answer."""
        try:
            _fresh_standard_streams()
            os.chdir(self._request["folder"])
            self._script = Script(self._request["script"], self._request["arguments"])
            self._prepare()
        except BaseException as error:
            self._end("crashed", f"Before the script began: {_last_line(error)}")
        if self._request["record"]:
            self._stop_recording_in_time()
        self._script_began = time.monotonic()
        self._steps.begin()
        try:
            self._script.run()
        except SystemExit as exit_:
            self._exited(exit_)
        except BaseException as error:
            self._script.print_exception(error)
            self._failed(error)
        self._ran_to_its_end()

    def _prepare(self) -> None:
        import torch

        self._torch: Any = torch
        if self._request["device"] != "cpu":
            self._apply_settings()
        self._device = self._make_device()
        self._steps = Steps(self._device, self._step_ended)
        self._device.start(torch)
        self._steps.watch(torch)
        self._seed()

    def _make_device(self) -> Any:
        if self._request["device"] == "cuda":
            from .gpu import Gpu

            return Gpu(self._request)
        if self._request["device"] == "phantom":
            from .phantom import Phantom

            phantom = Phantom(self._request)
            phantom.end = self._end
            return phantom
        from .estimate import Estimate

        return Estimate(self._request)

    def _apply_settings(self) -> None:
        """Give the settings to the allocator now; a script that sets the variable comes too late."""
        setter = _setter(self._torch)
        if setter is None:
            return
        try:
            setter(self._request["settings"])
        except Exception as error:
            version = self._torch.__version__
            self._end("rejected", f"torch {version} refuses the settings: {_last_line(error)}")

    def _seed(self) -> None:
        seed = self._request["seed"]
        if seed is None:
            return
        random.seed(seed)
        self._torch.manual_seed(seed)
        numpy = sys.modules.get("numpy")  # torch imported it if it is there
        if numpy is not None:
            numpy.random.seed(seed % (1 << 32))

    def _step_ended(self, boundary: Boundary) -> None:
        count = len(self._steps.boundaries)
        self._send({"step": count})
        if count >= self._request["warmup_steps"] + self._request["measured_steps"]:
            self._end("completed", None)

    def _stop_recording_in_time(self) -> None:
        seconds = RECORDING_TIME_SHARE * self._request["timeout_seconds"]

        def stop() -> None:
            if self._device.used:
                count = len(self._steps.boundaries)
                self._end(
                    "completed", None, f"The recording was stopped after {seconds:g} s and {count} steps."
                )

        timer = threading.Timer(seconds, stop)
        timer.daemon = True
        timer.start()

    def _ran_to_its_end(self) -> NoReturn:
        if self._steps.boundaries:
            self._end("completed", None)
        if self._steps.optimizer_made:
            self._end("crashed", "The script made an optimizer but ended before that took its first step.")
        if not self._device.used:
            self._end(
                "crashed",
                "The script ended without a step and without using the GPU; there is nothing to tune.",
            )
        self._end("completed", None)

    def _exited(self, exit_: SystemExit) -> NoReturn:
        shown = "" if exit_.code is None else repr(exit_.code)
        if exit_.code not in (None, 0):
            self._failed(exit_, f"The script ended with sys.exit({shown}).")
        if not self._steps.boundaries and self._script.exited_early(exit_):
            self._end(
                "crashed",
                f"The script ended with sys.exit({shown}) before its first step; "
                "let it run on, or call autotune.step() where a step ends.",
            )
        self._ran_to_its_end()

    def _failed(self, error: BaseException, reason: str | None = None) -> NoReturn:
        reason = reason or _last_line(error)
        if isinstance(error, EOFError) and "reading a line" in _text(error):
            reason = (
                "The script reads its standard input, which is empty in a trial; pass its input as arguments."
            )
        out_of_memory = self._is_out_of_memory(error) or self._device.num_ooms() > 0
        self._end("out_of_memory" if out_of_memory else "crashed", reason)

    def _is_out_of_memory(self, error: BaseException | None) -> bool:
        """Whether running out of GPU memory is what the error, or one behind it, says."""
        while error is not None:
            if isinstance(error, self._torch.cuda.OutOfMemoryError) or "CUDA out of memory" in _text(error):
                return True
            error = error.__cause__ or error.__context__
        return False

    def _end(self, outcome: str, reason: str | None, *notes: str) -> NoReturn:
        """Answer and end this process; in a process that the script forked, just end it."""
        if os.getpid() != self._pid:
            _flush()
            os._exit(0 if outcome == "completed" else 1)
        if not self._ending.acquire(blocking=False):
            threading.Event().wait()  # another thread is answering
        ended = time.monotonic()
        try:
            answer = self.answer(outcome, reason, list(notes))
        except Exception as error:
            answer = {"outcome": "crashed", "reason": f"The run could not be summed up: {_last_line(error)}"}
        began = getattr(self, "_script_began", ended)
        self._send({"answer": {"script_began": began, "script_ended": ended, **answer}})
        _flush()
        os._exit(0)

    def answer(self, outcome: str, reason: str | None, notes: list[str]) -> dict[str, Any]:
        """The answer's fields; without preparation, only those that need none."""
        if self._steps is None:
            return {"outcome": outcome, "reason": reason}
        boundaries = self._steps.boundaries
        if (
            self._request["device"] != "cpu"
            and os.environ.get(SETTINGS_VARIABLE, "") != self._request["settings"]
        ):
            notes.append(
                f"The script sets {SETTINGS_VARIABLE} itself, to '{os.environ.get(SETTINGS_VARIABLE, '')}'; "
                "trials override it, but outside of them it wins over the environment: remove that line."
            )
        return {
            "outcome": outcome,
            "reason": reason,
            "notes": notes,
            "boundaries": boundaries,
            "torch": self._torch.__version__,
            "python": sys.version.split()[0],
            **self._device.finish(boundaries, outcome in RECORDED_OUTCOMES),
        }

    def _send(self, document: dict[str, Any]) -> None:
        data = json.dumps(document).encode() + b"\n"
        with contextlib.suppress(OSError):  # the script closed all files, or the launcher has gone
            while data:
                data = data[os.write(self._pipe, data) :]


def _fresh_standard_streams() -> None:
    """Python's streams over descriptors 0 to 2; by line, so that a killed script's log is complete."""
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    for descriptor, name in ((1, "stdout"), (2, "stderr")):
        stream = open(  # noqa: SIM115 — they live as long as the process
            descriptor, "w", buffering=1, errors="backslashreplace", closefd=False
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.__stdin__ = sys.stdin  # type: ignore[misc]


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()


def _text(error: BaseException) -> str:
    """The error's message; a class of the script's may fail to give one."""
    try:
        return str(error)
    except Exception:
        return ""


def _last_line(error: BaseException) -> str:
    """`Type: message` on one line, of bearable length."""
    name = type(error).__qualname__
    module = type(error).__module__
    text = " ".join(_text(error).split())
    line = f"{name if module == 'builtins' else f'{module}.{name}'}: {text}" if text else name
    return line if len(line) <= REASON_LENGTH else line[:REASON_LENGTH] + " …"
