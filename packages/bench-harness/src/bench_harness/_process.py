"""The parent's end of a worker process."""

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from typing import Any

_TAIL = 2000  # characters of a dead worker's last words that go into the record

# Workers of one case live side by side; JAX by default takes most of a GPU for the
# first of them. The user's own setting wins.
_DEFAULTS = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}


class WorkerFailed(Exception):
    """A worker reported an error, died or took too long."""

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class WorkerProcess:
    """A worker and the pipes to it.

    It leads a process group of its own, so that Ctrl-C in a terminal reaches the parent
    alone and the parent decides what becomes of the workers.
    """

    def __init__(self, env: Mapping[str, str], timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._errors = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench_harness._worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**_DEFAULTS, **os.environ, **env, "PYTHONIOENCODING": "utf-8"},
            text=True,
            encoding="utf-8",
            **({"process_group": 0} if os.name == "posix" else {}),
        )

    def ask(self, operation: str, **arguments: Any) -> dict[str, Any]:
        """Send one request and return the answer.

        Raises
        ------
        WorkerFailed
            Where the worker answers with an error, dies, or exceeds `timeout_s`.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        late = threading.Event()

        def stop() -> None:
            late.set()
            self._process.kill()

        timer = threading.Timer(self.timeout_s, stop)
        timer.start()
        try:
            self._process.stdin.write(json.dumps({"op": operation, **arguments}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            timer.cancel()
        if not line.endswith("\n"):
            raise WorkerFailed("failed", self._obituary(operation, late.is_set()))
        answer = json.loads(line)
        if not answer["ok"]:
            raise WorkerFailed(answer["status"], answer["reason"])
        return answer

    def close(self) -> None:
        """Let the worker end by itself, and end it if it does not."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.close()
            self._process.wait(timeout=5)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
        self._release()

    def kill(self) -> None:
        """End the worker at once."""
        self._process.kill()
        self._release()

    def _release(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.wait()
        try:
            self._process.stdin.close()
        except OSError:  # what was still to be written has no reader
            pass
        self._process.stdout.close()
        self._errors.close()

    def _obituary(self, operation: str, late: bool) -> str:
        code = self._process.wait()
        if late:
            return (
                f"TimeoutError: `{operation}` took longer than {self.timeout_s:g} s "
                "and was stopped"
            )
        how = f"with signal {-code}" if code < 0 else f"with exit status {code}"
        self._errors.seek(0)
        words = self._errors.read().decode(errors="replace").strip()[-_TAIL:]
        return f"the process died {how} during `{operation}`" + (
            f"\nits last words:\n{words}" if words else ""
        )
