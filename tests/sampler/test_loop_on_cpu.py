"""The generation thread: pause, abort, resume, functions between steps, and errors that reach the
caller.
"""

from threading import Event

import pytest

from rltf_verl.sampler.generation import BatchGenerator, Request
from rltf_verl.sampler.loop import GenerationLoop
from rltf_verl.sampler.sampling import SamplingParams

SECONDS = 20


def request(name: str, max_tokens: int = 8) -> Request:
    return Request(name, [1, 2, 3], SamplingParams(max_tokens=max_tokens, seed=3))


@pytest.fixture
def loop(model):
    return GenerationLoop(BatchGenerator(model))


def test_abort_returns_begun_requests_and_later_ones_wait_for_resume(loop):
    begun = loop.submit(request("begun", max_tokens=200))
    assert loop.abort().result(SECONDS) == ["begun"]
    assert begun.result(SECONDS).stop_reason == "aborted"
    late = loop.submit(request("late"))
    with pytest.raises(ValueError, match="in use"):
        loop.submit(request("late"))
    assert loop.call(lambda generator: generator.num_unfinished).result(SECONDS) == 0
    assert loop.abort().result(SECONDS) == []
    assert not late.done()
    loop.resume()
    assert late.result(SECONDS).stop_reason == "completed"


def test_errors_reach_the_caller_and_the_thread_lives_on(loop):
    with pytest.raises(KeyError, match="no weight"):
        loop.call(lambda generator: generator.load([("x", None)])).result(SECONDS)
    for prompt in ([10**6, 1], [1, 10**6]):  # the last token goes through another forward
        with pytest.raises(IndexError):
            loop.submit(Request("bad", prompt, SamplingParams(max_tokens=2))).result(SECONDS)
    assert loop.submit(request("good")).result(SECONDS).stop_reason == "completed"


def test_a_caller_that_gives_up_ends_no_other_request(loop):
    loop.abort().result(SECONDS)
    futures = [loop.submit(request(name, n)) for name, n in (("short", 2), ("long", 8))]
    futures[0].cancel()
    busy = Event()
    loop.call(lambda _: busy.wait(SECONDS))
    assert not loop.call(lambda _: None).cancel()
    busy.set()
    loop.resume()
    assert futures[1].result(SECONDS).stop_reason == "completed"
