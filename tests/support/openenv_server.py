"""A server of the package openenv: `python -m tests.support.openenv_server SOCKET_NUMBER SLOW_S`.

Count to the seed's digit by sending numbers; another number is refused in words.
"""

import socket
import sys
import time

import uvicorn
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State


class Count(Action):
    message: str


class Said(Observation):
    text: str
    error: str = ""


class Counting(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self._at, self._end, self._state = 0, 1, State()

    def reset(self, seed=None, episode_id=None, **_):
        self._at, self._end = 0, 1 + (seed or 0) % 3
        return Said(text=f"Count to {self._end}, one number an answer.")

    def step(self, action, timeout_s=None, **_):
        if action.message == "slow":
            time.sleep(float(sys.argv[2]))
        if action.message == "raise":
            raise RuntimeError("the abacus is broken")
        if action.message != str(self._at + 1):
            return Said(text="No.", error=f"{self._at + 1} comes next.", reward=0.0)
        self._at += 1
        done = self._at == self._end
        return Said(text=f"{self._at}.", reward=float(done), done=done)

    @property
    def state(self):
        return self._state


if __name__ == "__main__":
    app = create_app(Counting, Count, Said, max_concurrent_envs=100)
    config = uvicorn.Config(app, log_level="warning", ws="websockets-sansio")
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=int(sys.argv[1]))])
