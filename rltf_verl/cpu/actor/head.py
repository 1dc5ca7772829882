"""Log-probs of given tokens without the logits of a whole batch, or all logits of those tokens.

For a vocabulary of V the logits of T tokens are T·V numbers, 1.6 GB for 8 192 tokens and 49 152
words, several times over in a backward pass. Here the vocabulary is cut into tiles: a tile's logits
are made, reduced and dropped, and made once more in the backward pass (Wijmans et al. 2024,
arXiv:2411.09009). All sums are fp32.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch.nn.functional import linear
from transformers import PreTrainedConfig

CHANGES = ("logits_scaling", "logit_scale", "final_logit_softcapping")
"""Config keys of a change of the logits after the output layer: Granite, Cohere, Gemma."""
TILE = 2048
"""Words per tile: with 1 000 tokens its logits take 8 MB, which a CPU's cache holds."""


class LabelLogProbs(torch.autograd.Function):
    """log π(label | state) = z_label − log Σ_v exp z_v with z = states Wᵀ / temperature."""

    @staticmethod
    def forward(
        ctx: Any,
        states: torch.Tensor,
        weight: torch.Tensor,
        where: torch.Tensor,
        labels: torch.Tensor,
        temperature: float,
        with_entropy: bool,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Reduce the logits.

        Args:
            ctx: autograd's.
            states: [M, D].
            weight: [V, D] of the output layer.
            where: [P] int64, the state of each label.
            labels: [P] int64.
            temperature: above 0.
            with_entropy: return the entropy too.

        Returns:
            [P] log-probs and [M] entropies (zeros without `with_entropy`), fp32.
        """
        h = states.float()
        top = torch.full((len(h),), -torch.inf)
        mass, weighted = torch.zeros(len(h)), torch.zeros(len(h))
        chosen = torch.zeros(len(labels))
        by_label = _by_label(labels)
        for start, logits, _ in _tiles(h, weight, temperature):
            here = _inside(by_label, start, logits.shape[1])
            chosen[here] = logits[where[here], labels[here] - start]
            # Streaming log-sum-exp: sums are relative to `top`; a higher maximum rescales them.
            higher = torch.maximum(top, logits.amax(-1))
            decay = (top - higher).exp()
            if with_entropy:
                shifted = logits - higher[:, None]
                p = shifted.exp()
                # Σ e^s·s, s = z − top; a new top shifts each s (the first time by −inf, at mass 0).
                weighted = decay * (weighted + torch.nan_to_num(top - higher, neginf=0.0) * mass)
                weighted += torch.einsum("ij,ij->i", p, shifted)
            else:
                p = logits.sub_(higher[:, None]).exp_()
            mass = decay * mass + p.sum(-1)
            top = higher
        lse = top + mass.log()
        entropy = mass.log() - weighted / mass if with_entropy else torch.zeros(len(h))
        ctx.save_for_backward(states, weight, where, labels, lse, entropy)
        ctx.temperature, ctx.with_entropy = temperature, with_entropy
        return chosen - lse[where], entropy

    @staticmethod
    def backward(
        ctx: Any, of_log_probs: torch.Tensor, of_entropy: torch.Tensor
    ) -> tuple[torch.Tensor | None, ...]:
        """∂/∂z_v = Σ_p g_p (1[v = label_p] − π_v) − g_H π_v (log π_v + H)."""
        states, weight, where, labels, lse, entropy = ctx.saved_tensors
        h = states.float()
        pull = torch.zeros(len(h)).index_add_(0, where, of_log_probs.float())
        d_states = torch.zeros_like(h)
        d_weight = torch.empty_like(weight) if ctx.needs_input_grad[1] else None
        by_label = _by_label(labels)
        for start, logits, tile in _tiles(h, weight, ctx.temperature):
            here = _inside(by_label, start, logits.shape[1])
            log_p = logits.sub_(lse[:, None])
            if ctx.with_entropy:
                slope = (log_p + entropy[:, None]).mul_(of_entropy[:, None]).add_(pull[:, None])
                d = log_p.exp_().mul_(slope).neg_()
            else:
                d = log_p.exp_().mul_(-pull[:, None])
            # Accumulated: several labels may follow one state, which rows share.
            d.index_put_((where[here], labels[here] - start), of_log_probs[here], accumulate=True)
            if ctx.temperature != 1:
                d.div_(ctx.temperature)
            d_states.addmm_(d, tile)
            if d_weight is not None:
                d_weight[start : start + d.shape[1]] = d.t() @ h
        return d_states.to(states.dtype), d_weight, None, None, None, None


def _tiles(
    states: torch.Tensor, weight: torch.Tensor, temperature: float
) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
    """First word, logits [M, tile] (overwritten by the next) and weights [tile, D] of each tile."""
    buffer = torch.empty(len(states) * TILE)
    for start in range(0, len(weight), TILE):
        tile = weight[start : start + TILE].float()
        # The last tile may be narrower.
        logits = buffer[: len(states) * len(tile)].view(len(states), len(tile))
        torch.mm(states, tile.t(), out=logits)
        yield start, logits.div_(temperature) if temperature != 1 else logits, tile


def _by_label(labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    ordered, order = labels.sort()
    return ordered.contiguous(), order


def _inside(by_label: tuple[torch.Tensor, torch.Tensor], start: int, size: int) -> torch.Tensor:
    """Indices of the labels in [start, start + size)."""
    ordered, order = by_label
    first, last = torch.searchsorted(ordered, torch.tensor([start, start + size])).tolist()
    return order[first:last]


@dataclass
class Question:
    """A question about the states that reach the output layer."""

    nodes: torch.Tensor
    "[P] int64, into the flattened states"
    labels: torch.Tensor
    "[P] int64, the tokens that follow"
    temperature: float
    with_entropy: bool
    whole: bool = False
    "whether the answer is the logits themselves"

    @cached_property
    def states(self) -> tuple[torch.Tensor, torch.Tensor]:
        """[n] distinct nodes, and [P] the place of each label's among them."""
        nodes, where = self.nodes.unique(return_inverse=True)
        return nodes, where

    def read(self, answer: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """[P] log-probs, and [P] entropies or, without that request, nothing."""
        if not self.whole:
            return answer[: len(self.labels)], answer[len(self.labels) :]
        _, where = self.states
        lse = answer.logsumexp(-1)
        log_probs = answer[where, self.labels] - lse[where]
        if not self.with_entropy:
            return log_probs, log_probs[:0]
        return log_probs, (lse - (answer.softmax(-1) * answer).sum(-1))[where]


class LogProbHead:
    """Replaces the forward of a model's output layer, which then answers a `Question` instead of
    returning logits. It runs where the layer runs, while its sharded weight is whole.
    """

    def __init__(self, layer: torch.nn.Linear) -> None:
        self.layer, self.plain = layer, layer.forward
        self.question: Question | None = None
        self.answer: torch.Tensor | None = None
        layer.forward = self  # type: ignore[method-assign,assignment]

    def __call__(self, states: torch.Tensor) -> torch.Tensor:
        """Log-probs [P], then entropies [P] on request; or the logits [n, V] of the distinct nodes,
        after the temperature. One tensor: FSDP's hooks sit on what a layer returns. Plain logits
        without a question.
        """
        asked = self.question
        if asked is None:
            return self.plain(states)
        nodes, where = asked.states
        read, weight = states.flatten(0, -2)[nodes], self.layer.weight
        if asked.whole:
            self.answer = linear(read.float(), weight.float()) / asked.temperature
        else:
            settings = asked.labels, asked.temperature, asked.with_entropy
            log_probs, entropy = LabelLogProbs.apply(read, weight, where, *settings)
            self.answer = torch.cat(
                [log_probs, entropy[where]] if asked.with_entropy else [log_probs]
            )
        return self.answer


def can_answer(layer: Any, config: PreTrainedConfig) -> bool:
    """True if the output layer is a plain matrix, and the model of this (text) config takes what it
    gives as logits.
    """
    changed = any(getattr(config, name, None) not in (None, 1.0) for name in CHANGES)
    return type(layer) is torch.nn.Linear and layer.bias is None and not changed
