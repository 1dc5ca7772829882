"""One rank of a real engine whose worker keeps weights beside the policy's: what each teacher says
before an update, after it, and after a checkpoint has been read back.

`python -m tests.support.engine.kept_rank out.pt key=value …`, as `engine_rank.py`. Rank 0 saves
the rows, the policy's weights (`first`, `moved`) and the answers by name.
"""

from functools import partial

import torch.distributed as dist
from verl.utils import tensordict_utils as tu

from rltf_verl.adapters.training.kept_weights import KEPT_WEIGHTS, KeepingWorker
from rltf_verl.kinds import name_of
from tests.support.engine.engine_rank import ask, make_rows, make_worker, run_rank, update_batch

SHARE = 0.25


def weights(worker):
    """Full tensors of all weights."""
    whole = {}
    for name, p in worker.engine.module.named_parameters():
        data = p.detach()
        whole[name] = (data.full_tensor() if hasattr(data, "full_tensor") else data).clone()
    return whole


def train(worker, rows, asked):
    """One optimiser update."""
    batch = update_batch(rows, ask(worker, rows, asked), asked)
    mine = tu.chunk_tensordict(batch, dist.get_world_size())[dist.get_rank()]
    tu.assign_non_tensor(mine, mini_batch_size=len(rows), epochs=1)
    worker.train_mini_batch(mine)


def record_of(config, out):
    rows = make_rows()
    record = {"rows": rows}
    share = SHARE if name_of(config.rltf.teacher.kind) == "ema" else 0.0
    worker, _, asked = make_worker(config, partial(KeepingWorker, share=share))
    policy, kept = partial(ask, worker, rows, asked), partial(ask, worker, rows, asked)
    kept = partial(kept, **{KEPT_WEIGHTS: True})
    record["first"], record["kept at first"] = weights(worker), kept()
    train(worker, rows, asked)
    record["moved"], record["kept"], record["policy"] = weights(worker), kept(), policy()
    folder = str(out.parent / "checkpoint")
    worker.save_checkpoint(folder, global_step=1)
    train(worker, rows, asked)
    worker.load_checkpoint(folder)
    record["kept after resume"], record["policy after resume"] = kept(), policy()
    if any("lora_" in name for name in record["first"]):
        record["without adapter"] = policy(no_lora_adapter=True)
    return record


if __name__ == "__main__":
    run_rank(record_of)
