"""An OpenEnv server (`openenv` 0.10; TRL, Unsloth and SkyRL use them) as an environment: each attempt is a session of its own.

    pip install websockets
    rltf data build gym_text factory=./openenv_client.py:Session "kwargs={url: ws://HOST:8000/ws}" --out data/served
    rltf/env=gym_text rltf.env.factory=./openenv_client.py:Session '+rltf.env.kwargs={url: ws://HOST:8000/ws}'

A server that is gone or late ends the attempt (`environment_error`): a new connection would be a new session.
"""

import json
from contextlib import ExitStack

from websockets.sync.client import connect


class Session:
    """A session. What the server says of a step that it refuses, and the field `feedback` of an observation, are feedback on
    that step.

    Args:
        url: of the server's `/ws`.
        action: field of the action that gets the whole answer; None: the answer is the action, as JSON.
        shown: field of the observation that the policy reads; None: all of them, as JSON.
        feedback: field of the observation with words on the step.
        timeout_s: longest wait for an answer; `rltf.env.step_s` bounds it, too.
    """

    def __init__(self, url, action="message", shown=None, feedback="error", timeout_s=30.0):
        self._action, self._shown, self._feedback = action, shown, feedback
        self._timeout_s, self._opened = timeout_s, ExitStack()
        self._socket = self._opened.enter_context(connect(url, open_timeout=timeout_s, max_size=2**24))

    def reset(self, seed):
        return self._text(self._ask("reset", {"seed": seed})["observation"]), {}

    def step(self, answer):
        try:
            made = {self._action: answer} if self._action else json.loads(answer)
            result = self._ask("step", made)
        except ValueError as error:  # the server's, or JSON's: the policy reads it and goes on
            return str(error), 0.0, False, False, {"feedback": str(error)}
        seen, reward = result["observation"], float(result.get("reward") or 0)
        return self._text(seen), reward, bool(result["done"]), False, {"feedback": seen.get(self._feedback)}

    def close(self):
        self._opened.close()

    def _ask(self, kind, data):
        self._socket.send(json.dumps({"type": kind, "data": data}))
        answer = json.loads(self._socket.recv(timeout=self._timeout_s))
        said = answer.get("data", {})
        if answer["type"] == "error":
            refused = said.get("code") in ("VALIDATION_ERROR", "EXECUTION_ERROR") and kind == "step"
            found = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in said.get("errors", ()))
            raise (ValueError if refused else ConnectionError)(found or said.get("message"))
        return said

    def _text(self, seen):
        return json.dumps(seen, ensure_ascii=False) if self._shown is None else str(seen[self._shown])
