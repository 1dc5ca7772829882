"""verl's own tool loop, whose trajectories get our rows; loaded as `recorder` is."""

from typing import Any

from verl.experimental.agent_loop.agent_loop import register
from verl.experimental.agent_loop.tool_agent_loop import ToolAgentLoop

from rltf_verl.adapters.rollout.agent_loop import rows_of_foreign_loop


@register("rltf_tools")
class ForeignLoop(ToolAgentLoop):
    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> Any:
        return await rows_of_foreign_loop(
            self, await super().run(sampling_params, **kwargs), **kwargs
        )
