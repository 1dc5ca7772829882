"""The teacher: its objective, `rltf.logit_distill`, which acts on attempt rows, and who it is,
`rltf.teacher`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, get_args

from rltf_verl.config.objectives import Scheduled, or_own
from rltf_verl.config.reading import require, require_choices
from rltf_verl.kinds import Within

if TYPE_CHECKING:
    from rltf_verl.config import RLTFConfig

GateName = Literal["none", "route", "variance", "magnitude", "sigmoid"]
"""What verdict and teacher make of each other; see `algos.gate`."""


@dataclass(frozen=True)
class LogitDistillConfig(Scheduled):
    """Logit self-distillation (SDPO): attempts are pulled, token by token, towards what a teacher
    says there, who has read more (`rltf.teacher`)."""

    divergence: Literal["forward_kl", "reverse_kl", "jsd", "sampled_token"] = "jsd"
    """Between the teacher p and the student q: KL(p ‖ q), KL(q ‖ p), or β KL(p ‖ m) + (1 − β) KL(q
    ‖ m), which read logits (FSDP); or sampled_token: log p − log q of each token said as its
    advantage, which reads log-probs only (every engine) and is KL(q ‖ p) on average.
    """
    beta: float = 0.5
    """β of jsd, the teacher's share of the mixture m = β p + (1 − β) q, in (0, 1)."""
    top_k: Annotated[int, Within(1)] = 100
    """The teacher's likeliest tokens that are kept apart; all others are one outcome, the tail. At
    or above the size of the vocabulary the divergence is exact."""
    term_clip: Annotated[float, Within(above=0)] | None = None
    """Most nats that one outcome (one token, or the tail) adds to a token's divergence (OPSD:
    0.05); null: no limit."""
    ratio_clip: Annotated[float, Within(above=0)] | None = None
    """Tokens weigh min(π_θ / π_old, ratio_clip) (SDPO: 2), which counts once the policy has moved
    since it sampled; null: they weigh 1."""
    entropy_decay: Annotated[float, Within(0)] = 0.0
    """β of the weight exp(−β H) of a token, H the teacher's entropy there, over its mean (SRPO); 0
    weighs all tokens alike."""

    @property
    def reads_logits(self) -> bool:
        """Whether the update needs the logits of whole packed micro-batches."""
        return self.enabled and self.divergence != "sampled_token"

    def __post_init__(self) -> None:
        self.check("logit_distill.")
        require(
            0 < self.beta < 1, "logit_distill.beta", self.beta, "must lie strictly between 0 and 1"
        )
        require(
            self.term_clip is None or self.divergence != "sampled_token",
            "logit_distill.term_clip",
            self.term_clip,
            "cuts off the outcomes of a divergence, and sampled_token sees one token only; set it"
            " to null, or another rltf.logit_distill.divergence",
        )

    def check_beside(self, config: RLTFConfig) -> None:
        """As `Scheduled.check_beside`."""
        teacher, episode, weight = config.teacher, config.episode, self.weight
        for key, usual in (("kind", "policy"), ("gate", "none")):
            require(
                self.enabled or getattr(teacher, key) == usual,
                f"teacher.{key}",
                getattr(teacher, key),
                f"no one asks the teacher; give rltf.logit_distill a weight, or set it to {usual}",
            )
        if not self.enabled:
            return
        require(
            teacher.gate != "magnitude"
            or max(weight if isinstance(weight, tuple) else (weight,)) <= 1,
            "logit_distill.weight",
            weight,
            "with rltf.teacher.gate=magnitude it is how far the teacher scales the advantages; must"
            " be at most 1",
        )
        require(
            config.attempt.turns == "all" or teacher.turns == "first" or episode.horizon == 1,
            "attempt.turns",
            config.attempt.turns,
            f"later attempts have no row, and rltf.teacher.turns={teacher.turns} wants to teach"
            " them; set it to all, or teacher.turns to first",
        )
        right_have_feedback = not episode.stop_when_solved_train and config.feedback.ask == "always"
        require(
            not teacher.right or teacher.sources != ("feedback",) or right_have_feedback,
            "teacher.right",
            teacher.right,
            "right attempts have no feedback that a teacher could read; set it to false,"
            " rltf.teacher.reads to reference, sibling or demonstration beside feedback, or"
            " rltf.episode.stop_when_solved_train to false",
        )


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
    the dataset (`extra_info.demonstration`). An attempt has no teacher where there is none of them.
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
    wrong ones have the teacher only), variance (SC-SDPO: the teacher weighs √(p(1 − p)) of the
    group's share p of right answers), magnitude (RLSD: the teacher only scales the advantages, as
    far as rltf.logit_distill.weight says), sigmoid (SDAR: it weighs σ(β gap)), or your own
    `./mine.py:function` (see `algos.gate`)."""
    gate_scale: Annotated[float, Within(above=0)] | None = None
    """ε of magnitude (null: 0.2) or β of sigmoid (null: 1)."""

    def __post_init__(self) -> None:
        require_choices(self, "teacher.")
        unique = len(set(self.sources)) == len(self.sources) > 0
        require(unique, "teacher.reads", list(self.sources), "must name one source or more, once")

    @property
    def sources(self) -> tuple[Source, ...]:
        """`reads` as a tuple."""
        return self.reads if isinstance(self.reads, tuple) else (self.reads,)
