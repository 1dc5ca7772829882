"""verl's FSDP engine for the CPU: rows share their prefixes, and no logits of prompts are made.

`ppo_max_token_len_per_gpu` bounds the nodes of a micro-batch, padding included; a row longer than
that is computed alone. For `rltf.logit_distill` the logits of response tokens are made. A
temperature per row, and models whose rows cannot share (sliding windows, dropout, changed logits),
take verl's own path.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from itertools import chain
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from tensordict import TensorDict
from verl.utils import tensordict_utils as tu
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead
from verl.workers.engine.utils import detach_tree, postprocess_batch_func

from rltf_verl.adapters.training.logit_loss import LOGIT_ROWS, TEACHER_PLACES
from rltf_verl.cpu.actor import attention
from rltf_verl.cpu.actor.forest import Bin, lay_out, micro_batches, pack
from rltf_verl.cpu.actor.head import LogProbHead, Question, can_answer

LossFunction = Callable[..., Any]


class CPUEngine(FSDPEngineWithLMHead):
    """The actor's and the reference policy's engine for `trainer.device=cpu`."""

    _shares = False
    "whether the model's rows may share prefixes"
    _head: LogProbHead | None = None

    def _build_module(self) -> torch.nn.Module:
        module: Any = super()._build_module()
        self._shares = self.engine_config.strategy == "fsdp2" and attention.shares_prefixes(module)
        if self._shares:
            attention.use(module)
        return module

    def _build_model_optimizer(self) -> None:
        super()._build_model_optimizer()
        layer = self.module.get_output_embeddings()
        if self._shares and can_answer(layer, self.module.config.get_text_config()):
            self._head = LogProbHead(layer)

    def forward_backward_batch(
        self, data: TensorDict, loss_function: Any, forward_only: bool = False
    ) -> Any:
        """verl's, with micro-batches of rows that share prefixes."""
        with attention.bf16_products(self._autocast_dtype == torch.bfloat16):
            if not self._fits(data):
                _make_room(data)
                return super().forward_backward_batch(data, loss_function, forward_only)
            return self._shared_batch(data, loss_function, forward_only)

    def _fits(self, data: TensorDict) -> bool:
        """True if the batch asks for log-probs, entropies and what our loss reads of the logits."""
        return (
            self._head is not None
            and not tu.get_non_tensor_data(data, "calculate_sum_pi_squared", False)
            and (not _reads_logits(data) or TEACHER_PLACES in data.keys())  # noqa: SIM118
            and bool(tu.get_non_tensor_data(data, "use_dynamic_bsz", True))
            and not isinstance(data["temperature"], torch.Tensor)
            and not _holds_images(data)
            and data["position_ids"].dim() == 2
        )

    def _shared_batch(
        self, data: TensorDict, loss_function: LossFunction | None, forward_only: bool
    ) -> Any:
        # The constants that verl's own `forward_backward_batch` hands to a loss.
        group = self.get_data_parallel_group()
        num_tokens = data["loss_mask"].sum()
        dist.all_reduce(num_tokens, group=group)
        tu.assign_non_tensor(
            data,
            sp_size=1,
            batch_num_tokens=num_tokens.item(),
            dp_size=self.get_data_parallel_size(),
        )
        rows = [ids[:-1].numpy() for ids in data["input_ids"].unbind()]  # nothing follows the last
        limit = int(data["max_token_len_per_gpu"])
        bins = pack(rows, limit)
        count = torch.tensor(len(micro_batches(bins, limit)))
        dist.all_reduce(count, op=dist.ReduceOp.MAX, group=group)  # FSDP gathers in every forward
        parts = micro_batches(bins, limit, int(count))
        keep = bool(tu.get_non_tensor_data(data, "return_model_output", False))
        outputs, indices = [], []
        for i, part in enumerate(parts):
            order = list(chain.from_iterable(one.rows for one in part))
            micro_batch = tu.index_select_tensor_dict(data, order)
            sync = (
                nullcontext()
                if forward_only
                else self._gradient_sync_context(is_last_micro_batch=i == len(parts) - 1)
            )
            with torch.no_grad() if forward_only else nullcontext(), sync:
                loss, output = self._forward(micro_batch, rows, part, loss_function)
                if not forward_only:
                    loss.backward()
                    if not keep:
                        output.pop("model_output")
            outputs.append(output)
            indices.append(order)
        return postprocess_batch_func(output_lst=outputs, indices=indices, data=data)

    def _forward(
        self,
        data: TensorDict,
        rows: list[np.ndarray],
        bins: list[Bin],
        loss_function: LossFunction | None,
    ) -> tuple[torch.Tensor, dict[str, Any]]:
        """verl's `forward_step` of one micro-batch, whose rows are in the order of the bins."""
        forest, positions = lay_out(rows, bins), response_positions(data)
        nodes = torch.from_numpy(np.concatenate(forest.nodes))
        # The last token of each row has no node: positions skip it, so they are shifted by rows.
        row = torch.repeat_interleave(data["input_ids"].offsets().diff())[positions]
        question = Question(
            nodes[positions - row],
            data["input_ids"].values()[positions + 1],
            float(data["temperature"]),
            bool(tu.get_non_tensor_data(data, "calculate_entropy", False)),
            _reads_logits(data),
        )
        answer = self._ask(forest, question)
        log_probs, entropy = question.read(answer)
        output = {"log_probs": _nested(data, positions, log_probs)}
        if question.with_entropy:
            output["entropy"] = _nested(data, positions, entropy)
        if question.whole:
            assert loss_function is not None
            data[LOGIT_ROWS] = _nested(data, positions, question.states[1])
            # [1, n, V]: verl's packed batches are one long row.
            read = loss_function(student_logits=answer.unsqueeze(0), data=data)
            offsets = data["input_ids"].offsets()
            for name, values in read.items():
                output[name] = torch.nested.nested_tensor_from_jagged(values.squeeze(0), offsets)
        loss, metrics = torch.ones(()), dict[str, Any]()
        if loss_function is not None:
            loss, metrics = loss_function(
                model_output=output, data=data, dp_group=self.get_data_parallel_group()
            )
        reported = {"model_output": detach_tree(output), "loss": loss.item(), "metrics": metrics}
        return loss, reported

    def _ask(self, forest: Any, question: Question) -> torch.Tensor:
        assert self._head is not None
        self._head.question = question
        try:
            output = self.module(
                input_ids=forest.input_ids,
                attention_mask=forest.mask,
                position_ids=forest.position_ids,
                use_cache=False,
            )
        finally:
            self._head.question = None
        answer, self._head.answer = self._head.answer, None
        if answer is None or output.logits is not answer:
            name = type(self.module).__name__
            raise RuntimeError(
                f"{name} changes its logits after the output layer: to take verl's own path set"
                " actor_rollout_ref.actor.use_dynamic_bsz=False, ….ppo_micro_batch_size_per_gpu=1"
                " and actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=1"
            )
        return answer


def _nested(data: TensorDict, positions: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Values at their positions, 0 elsewhere, in the rows' lengths."""
    ids = data["input_ids"]
    whole = values.new_zeros(len(ids.values())).index_put((positions,), values)
    return torch.nested.nested_tensor_from_jagged(whole, ids.offsets())


def _reads_logits(data: TensorDict) -> bool:
    return bool(tu.get_non_tensor_data(data, "distillation_use_topk", False))


def _holds_images(data: TensorDict) -> bool:
    """True if any row is more than text: verl gives a row of text an empty dict."""
    inputs = data.get("multi_modal_inputs", None)
    return inputs is not None and any(getattr(row, "data", row) for row in inputs)


def _make_room(data: TensorDict) -> None:
    """A row longer than a micro-batch is computed alone here too: verl would end the run."""
    if bool(tu.get_non_tensor_data(data, "use_dynamic_bsz", True)):
        longest = int(data["input_ids"].offsets().diff().max())
        limit = max(int(data["max_token_len_per_gpu"]), longest)
        tu.assign_non_tensor(data, max_token_len_per_gpu=limit)


def response_positions(data: TensorDict) -> torch.Tensor:
    """[P] positions in the packed rows whose next token's log-prob is read.

    They are the response's (`loss_mask` has its length), or those that a mask over whole rows
    (verl's SFT trainer) sets.
    """
    ends = data["input_ids"].offsets()[1:]
    lengths, mask = data["input_ids"].offsets().diff(), data["loss_mask"]
    wanted = mask.offsets().diff()
    if bool((wanted == lengths).all()):
        # A token is predicted one position earlier; a row's end must not take the next row's start.
        set_here = mask.values().roll(-1) != 0
        set_here[ends - 1] = False
        return set_here.nonzero().squeeze(-1)
    # A response begins at end − length, predicted one earlier; `arange` counts on over all rows.
    first = torch.repeat_interleave(ends - wanted - 1 - mask.offsets()[:-1], wanted)
    return torch.arange(len(first)) + first
