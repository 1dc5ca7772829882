"""One rank of verl's own packed engine: two updates by plain gradient descent with our loss, and
log-probs of the first weights between them, as in `separate_async`.

`python -m tests.support.engine.packed_rank out.pt key=value …`, as `engine_rank`. Rank 0 saves the
rows and the weights that the rollout would get before and after the updates.
"""

import torch.distributed as dist
from verl.utils import fsdp_utils
from verl.utils import tensordict_utils as tu

from tests.support.engine.engine_rank import make_rows, make_worker, run_rank, update_batch

MAX_TOKENS = 24
SCALE = 1e6
"""Of the advantages: random tokens are unlikely, and their ratios to old log-probs of -1 tiny."""


def record_of(config, _):
    worker, _, asked = make_worker(config)
    rows = [row | {"advantage": SCALE * row["advantage"]} for row in make_rows()]
    batch = update_batch(rows, [], asked)
    mine = tu.chunk_tensordict(batch, dist.get_world_size())[dist.get_rank()]
    tu.assign_non_tensor(
        mine,
        use_remove_padding=True,
        use_dynamic_bsz=True,
        max_token_len_per_gpu=MAX_TOKENS,
        use_fused_kernels=False,
    )

    def sent():
        weights, _ = worker.engine.get_per_tensor_param(base_sync_done=False)
        return {name: weight.clone() for name, weight in weights}

    def update():
        with worker.engine.train_mode():
            worker.engine.optimizer_zero_grad()
            output = worker.engine.forward_backward_batch(mine, worker.loss_fn, forward_only=False)
            worker.engine.optimizer_step()
        return output

    module = worker.engine.module
    version = fsdp_utils.fsdp_version(module)
    save = getattr(fsdp_utils, f"fsdp{version}_sharded_save_to_cpu")
    restore = getattr(fsdp_utils, f"fsdp{version}_sharded_load_from_cpu")

    def copy():
        saved = save(module)
        return saved if version == 2 else (saved,)

    before, old = sent(), copy()
    update()
    current = copy()
    restore(module, *old)
    with worker.engine.eval_mode():
        worker.engine.forward_backward_batch(mine, None, forward_only=True)
    restore(module, *current)
    output = update()
    return {
        "rows": rows,
        "before": before,
        "after": sent(),
        "micro": len(output["loss"]),
        "engine": type(worker.engine).__name__,
    }


if __name__ == "__main__":
    run_rank(record_of)
