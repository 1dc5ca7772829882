"""The thread that owns a `BatchGenerator`: others hand it requests and functions, and get futures
back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from rltf_verl.sampler.generation import BatchGenerator, Request, Result

T = TypeVar("T")


class GenerationLoop:
    """Steps a generator whenever it has work and is not paused. Requests that arrive during a pause
    wait.
    """

    def __init__(self, generator: BatchGenerator) -> None:
        self._generator = generator
        self._changed = threading.Condition()
        self._arrived: list[Request] = []
        self._calls: list[tuple[Callable[[BatchGenerator], Any], Future[Any]]] = []
        self._futures: dict[str, Future[Result]] = {}
        self._paused = False
        threading.Thread(target=self._run, name="generation", daemon=True).start()

    def submit(self, request: Request) -> Future[Result]:
        """Queue a request and return the future of its result. The id must not be in use."""
        with self._changed:
            if request.request_id in self._futures:
                raise ValueError(f"request id {request.request_id} is in use")
            future = self._futures[request.request_id] = Future()
            # From here on it cannot be cancelled: a result for a cancelled future would raise in
            # the thread, and end all other requests.
            future.set_running_or_notify_cancel()
            self._arrived.append(request)
            self._changed.notify()
        return future

    def call(self, function: Callable[[BatchGenerator], T]) -> Future[T]:
        """Run a function between two steps, also during a pause."""
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()  # as in `submit`
        with self._changed:
            self._calls.append((function, future))
            self._changed.notify()
        return future

    def abort(self) -> Future[list[str]]:
        """Pause, end every request made before the pause with what it has so far, and return their
        ids.
        """
        early: list[Request] = []
        with self._changed:
            if not self._paused:
                early, self._arrived = self._arrived, early
            self._paused = True
        return self.call(lambda generator: self._abort(generator, early))

    def resume(self) -> None:
        """End a pause."""
        with self._changed:
            self._paused = False
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(self._has_work)
                calls, self._calls = self._calls, []
            for function, future in calls:
                _settle(future, function, self._generator)
            # Read without the lock: a pause that begins right now takes effect one step later.
            if not self._paused:
                self._step()

    def _has_work(self) -> bool:
        waiting = self._arrived or self._generator.num_unfinished
        return bool(self._calls or (waiting and not self._paused))

    def _step(self) -> None:
        with self._changed:
            arrived, self._arrived = self._arrived, []
        for request in arrived:
            self._generator.add(request)
        try:
            self._deliver(self._generator.step())
        except Exception as error:
            self._fail(error)

    def _deliver(self, results: list[Result]) -> None:
        # No lock here and in `_fail`: one `pop` is atomic, and only this thread takes entries out.
        for result in results:
            self._futures.pop(result.request_id).set_result(result)

    def _fail(self, error: Exception) -> None:
        """Give every running request the error that broke the step: none may wait for ever."""
        for result in self._generator.abort_all():
            self._futures.pop(result.request_id).set_exception(error)

    def _abort(self, generator: BatchGenerator, early: list[Request]) -> list[str]:
        for request in early:
            generator.add(request)
        results = generator.abort_all()
        self._deliver(results)
        return [result.request_id for result in results]


def _settle(
    future: Future[T], function: Callable[[BatchGenerator], T], generator: BatchGenerator
) -> None:
    try:
        future.set_result(function(generator))
    except Exception as error:
        future.set_exception(error)
