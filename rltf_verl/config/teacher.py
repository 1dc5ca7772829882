"""The teacher: its objective, `rltf.logit_distill`, which acts on attempt rows, and its settings,
`rltf.teacher`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, get_args

from rltf_verl.config.objectives import Scheduled, or_own
from rltf_verl.kinds import OWN, Choice, Within

GateName = Literal["none", "route", "variance", "magnitude", "residual", "sigmoid"]
"""Ways to combine verdict and teacher; see `algos.gate`."""

SCALING_GATES = ("magnitude", "residual")
"""Gates that change advantages and train nothing themselves."""


DivergenceName = Literal["forward_kl", "reverse_kl", "jsd", "sampled_token"]
"""Distance of the student from the teacher; see `algos.logit_distill`."""


@dataclass(frozen=True)
class Divergence(Choice):
    """Divergence between the teacher p and the student q."""

    READS: ClassVar = {
        "forward_kl": ("term_clip",),
        "reverse_kl": ("term_clip",),
        "jsd": ("beta", "term_clip"),
        OWN: ("beta", "term_clip"),
    }
    name: Annotated[str, or_own(DivergenceName)] = "jsd"
    """forward_kl, KL(p ‖ q); reverse_kl, KL(q ‖ p); jsd, β KL(p ‖ m) + (1 − β) KL(q ‖ m); or your
    own `./mine.py:function`, which read logits (FSDP). Or sampled_token: log p − log q of each
    sampled token as its advantage, which reads log-probs only (every engine) and is KL(q ‖ p) on
    average."""
    beta: Annotated[float, Within(above=0, below=1)] = 0.5
    """β of jsd, the teacher's share of the mixture m = β p + (1 − β) q, in (0, 1)."""
    term_clip: Annotated[float, Within(above=0)] | None = None
    """Most nats that one outcome (one token, or the tail) adds to a token's divergence (OPSD:
    0.05), of all but sampled_token; null: no limit."""


@dataclass(frozen=True)
class LogitDistillConfig(Scheduled):
    """Logit self-distillation (SDPO): attempts are pulled, token by token, towards the
    distributions of a teacher that has read more (`rltf.teacher`)."""

    divergence: Divergence = Divergence()
    top_k: Annotated[int, Within(1)] = 100
    """The teacher's likeliest tokens that are kept apart; all others are one outcome, the tail. At
    or above the size of the vocabulary the divergence is exact."""
    ratio_clip: Annotated[float, Within(1)] | None = None
    """Tokens weigh min(π_θ / π_old, ratio_clip) (SDPO: 2), which counts once the policy has moved
    since it sampled; null: they weigh 1."""
    entropy_decay: Annotated[float, Within(0)] = 0.0
    """β of the weight exp(−β H) of a token, H the teacher's entropy there, over its mean (SRPO); 0
    weighs all tokens alike."""

    @property
    def reads_logits(self) -> bool:
        """True if the update needs the logits of whole packed micro-batches."""
        return self.enabled and self.divergence.name != "sampled_token"


Source = Literal["feedback", "reference", "sibling", "demonstration"]
SOURCES: tuple[str, ...] = get_args(Source)


@dataclass(frozen=True)
class TeacherKind(Choice):
    """The policy that teaches."""

    READS: ClassVar = {"ema": ("policy_share",), "trust_region": ("policy_share",)}
    name: Literal["policy", "base", "ema", "trust_region"] = "policy"
    """`policy`: as it is before the update. `base`: as it was before training (LoRA switched off,
    else a copy of the first weights). `ema`: a moving average of its weights. `trust_region`: a
    mixture of the distributions of policy and base."""
    policy_share: Annotated[float, Within(0, 1)] = 0.05
    """`ema`: share of the policy's weights that enters the average after each batch's updates
    (SDPO: 0.05). `trust_region`: the policy's share of the mixture."""


@dataclass(frozen=True)
class Contrast(Choice):
    """Contrast of the teacher: the same template with another text. Its gap is
    then log p(y_t) − log of the mean p'(y_t) over these texts. An attempt without a contrast has no
    teacher."""

    READS: ClassVar = {"wrong_sibling": ("n",), "other_problem": ("n",)}
    name: Literal["wrong_sibling", "other_problem", "reference_only"] | None = None
    """The wrong answers of siblings (RLCSD), what it would read of other problems, or what it reads
    without the question (Purified OPSD)."""
    n: Annotated[int, Within(1, 4)] = 4
    """Most texts of the contrast, of wrong_sibling and other_problem; each is one more row of the
    teacher's forward pass."""


@dataclass(frozen=True)
class Gate(Choice):
    """Combination of verdict and teacher. gap is log p(y_t) − log q(y_t), or the
    contrast.
    """

    READS: ClassVar = {
        "magnitude": ("scale",),
        "residual": ("scale", "width", "threshold"),
        "sigmoid": ("scale",),
        OWN: ("scale",),
    }
    name: Annotated[str, or_own(GateName)] = "none"
    """route (SRPO: right answers keep their advantage, wrong ones with a teacher have the teacher
    only), variance (SC-SDPO: the teacher weighs √(p(1 − p)) of the group's share p of right
    answers, over its mean in the batch), magnitude (RLSD: no teacher's loss; advantages times
    clip(e^{sign(A) gap}, 1 ± ε), faded in by rltf.logit_distill.weight), residual (RLCSD: no
    teacher's loss; λ tanh(gap / τ) is added to advantages, which keep their sign, faded in
    likewise), sigmoid (SDAR: it weighs σ(β gap)), or your own `./mine.py:function`."""
    scale: Annotated[float, Within(above=0)] | None = None
    """ε of magnitude (null: 0.2), λ of residual (null: 0.5), β of sigmoid (null: 1), or what your
    own is given (null: 1)."""
    width: Annotated[float, Within(above=0)] = 0.02
    """τ of residual, nats: gaps well above it all count alike."""
    threshold: Annotated[float, Within(0)] = 0.02
    """A residual of at most that size counts as 0."""


@dataclass(frozen=True)
class TeacherConfig:
    """The teacher of `rltf.logit_distill`: its kind, texts and attempts, and the gate of the
    verdict."""

    kind: TeacherKind = TeacherKind()
    reads: Source | tuple[Source, ...] = "feedback"
    """Texts in its prompt beside the question (privileged context), one or a list: `feedback` on
    the attempt, the `reference` solution, the right answer of a `sibling`, the `demonstration` of
    the dataset (`extra_info.demonstration`). An attempt without any of them has no teacher.
    """
    notes: Literal["joined", "by_step"] = "joined"
    """Feedback on the steps of a trajectory: `joined`, one text for all of it, or `by_step`: the
    teacher of a step reads the notes on it and on the whole, and other steps have no teacher
    (HinT-SD).
    """
    against: Contrast = Contrast()
    shuffled: bool = False
    """Control: the teacher reads what belongs to another problem, in the same template. Then
    learning does not come from the content."""
    turns: Literal["first", "all", "last"] = "first"
    """Attempts of an episode that have a teacher."""
    right: bool = False
    """Right attempts have a teacher too."""
    prompt: str | None = None
    """Template of its prompt: `teacher/NAME` or `revise/NAME` of `rltf_verl/prompts`, or a file
    `./mine.j2`; null takes the one that fits (docs/methods.md)."""
    gate: Gate = Gate()

    @property
    def reads_other_problems(self) -> bool:
        """True if its prompts hold texts of other problems."""
        return self.shuffled or self.against.name == "other_problem"

    @property
    def sources(self) -> tuple[Source, ...]:
        """`reads` as a tuple."""
        return self.reads if isinstance(self.reads, tuple) else (self.reads,)
