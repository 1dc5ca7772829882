"""The teacher: its objective, `rltf.logit_distill`, which acts on attempt rows, and its settings,
`rltf.teacher`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from rltf_verl.config.objectives import Scheduled, or_own
from rltf_verl.kinds import Within

GateName = Literal["none", "route", "variance", "magnitude", "sigmoid"]
"""What verdict and teacher make of each other; see `algos.gate`."""


DivergenceName = Literal["forward_kl", "reverse_kl", "jsd", "sampled_token"]
"""How far the student is from the teacher; see `algos.logit_distill`."""


@dataclass(frozen=True)
class LogitDistillConfig(Scheduled):
    """Logit self-distillation (SDPO): attempts are pulled, token by token, towards the
    distributions of a teacher that has read more (`rltf.teacher`)."""

    divergence: Annotated[str, or_own(DivergenceName)] = "jsd"
    """Between the teacher p and the student q: KL(p ‖ q), KL(q ‖ p), β KL(p ‖ m) + (1 − β) KL(q ‖
    m), or your own `./mine.py:function`, which read logits (FSDP); or sampled_token: log p − log q
    of each sampled token as its advantage, which reads log-probs only (every engine) and is KL(q ‖
    p) on average."""
    beta: Annotated[float, Within(above=0, below=1)] = 0.5
    """β of jsd, the teacher's share of the mixture m = β p + (1 − β) q, in (0, 1)."""
    top_k: Annotated[int, Within(1)] = 100
    """The teacher's likeliest tokens that are kept apart; all others are one outcome, the tail. At
    or above the size of the vocabulary the divergence is exact."""
    term_clip: Annotated[float, Within(above=0)] | None = None
    """Most nats that one outcome (one token, or the tail) adds to a token's divergence (OPSD:
    0.05); null: no limit."""
    ratio_clip: Annotated[float, Within(1)] | None = None
    """Tokens weigh min(π_θ / π_old, ratio_clip) (SDPO: 2), which counts once the policy has moved
    since it sampled; null: they weigh 1."""
    entropy_decay: Annotated[float, Within(0)] = 0.0
    """β of the weight exp(−β H) of a token, H the teacher's entropy there, over its mean (SRPO); 0
    weighs all tokens alike."""

    @property
    def reads_logits(self) -> bool:
        """Whether the update needs the logits of whole packed micro-batches."""
        return self.enabled and self.divergence != "sampled_token"


Source = Literal["feedback", "reference", "sibling", "demonstration"]
SOURCES: tuple[str, ...] = get_args(Source)


@dataclass(frozen=True)
class TeacherConfig:
    """Who teaches in `rltf.logit_distill`, what it reads, which attempts it teaches, and how it
    shares them with the verdict."""

    kind: Literal["policy", "base", "ema", "trust_region"] = "policy"
    """`policy`: as it is before the update. `base`: as it was before training (LoRA switched off,
    else a copy of the first weights). `ema`: a moving average of its weights. `trust_region`: a
    mixture of the distributions of policy and base."""
    policy_share: Annotated[float, Within(0, 1)] = 0.05
    """Of `ema`: how much of the policy's weights enters the average after each batch's updates
    (SDPO: 0.05). Of `trust_region`: the policy's share of the mixture."""
    reads: Source | tuple[Source, ...] = "feedback"
    """What its prompt shows beside the question (privileged context), one or a list: `feedback` on
    the attempt, the `reference` solution, the right answer of a `sibling`, the `demonstration` of
    the dataset (`extra_info.demonstration`). An attempt without any of them has no teacher.
    """
    turns: Literal["first", "all", "last"] = "first"
    """Which attempts of an episode have a teacher."""
    right: bool = False
    """Right attempts have a teacher too."""
    prompt: str | None = None
    """Template of its prompt: `teacher/NAME` or `revise/NAME` of `rltf_verl/prompts`, or a file
    `./mine.j2`; null takes the one that fits (docs/methods.md)."""
    gate: Annotated[str, or_own(GateName)] = "none"
    """What verdict and teacher make of each other: route (SRPO: right answers keep their advantage,
    wrong ones with a teacher have the teacher only), variance (SC-SDPO: the teacher weighs
    √(p(1 − p)) of the group's share p of right answers), magnitude (RLSD: no teacher's loss;
    advantages times clip(e^{sign(A) gap}, 1 ± ε), faded in by rltf.logit_distill.weight), sigmoid
    (SDAR: it weighs σ(β gap)), or your own `./mine.py:function`. gap: log p(y_t) − log q(y_t)."""
    gate_scale: Annotated[float, Within(above=0)] | None = None
    """ε of magnitude (null: 0.2) or β of sigmoid (null: 1)."""

    @property
    def sources(self) -> tuple[Source, ...]:
        """`reads` as a tuple."""
        return self.reads if isinstance(self.reads, tuple) else (self.reads,)
