"""A provider of your own that quotes another episode's right answer to the same problem.

    rltf/feedback=own rltf.feedback.provider=./peer.py:Peer rltf.feedback.guard.action=none
    rltf.feedback.acknowledge_leaks=true
"""

from dataclasses import dataclass

from rltf_verl.feedback.base import FeedbackProvider, FeedbackUnavailable
from rltf_verl.types import Feedback


@dataclass
class Peer(FeedbackProvider):
    """Waits until the group's other episodes are at the same turn, at most `wait_s` seconds."""

    wait_s: float = 60.0
    name = "peer"
    sees_reference = True
    constant = False
    subject = "attempt"
    tells_answer = True
    waits_for_others = True

    async def feedback(self, request):
        group, turn = request.group, len(request.turns) - 1
        right = await group.solutions(request.session_id, turn, self.wait_s) if group else []
        if not right:
            raise FeedbackUnavailable(self.name, f"nobody has solved {request.problem.index}")
        quoted = right[request.seed % len(right)].text
        return Feedback(f"Another attempt was correct:\n\n{quoted}", self.name, sees_reference=True)
