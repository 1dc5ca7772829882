"""Findings of a probe: thresholds, each with its reason, and rows of findings. docs/measuring.md
lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from rltf_verl.findings import Finding, Level, Rule, findings
from rltf_verl.tools.report.evaluation.bootstrap import Estimate
from rltf_verl.tools.report.evaluation.show import shown as in_per_cent
from rltf_verl.tools.report.probe.measures import LABELS, Measured, TrainingRun

Decision = Literal["holds", "fails", "inconclusive"]
Verdict = Literal["go", "change first", "too few episodes"]

MENTIONS = 0.05
"""Share of second answers that mention the feedback: distilled, one first answer in twenty learns
to.
"""

# In all runs of `python recipes/pretrained/law.py` in which feedback righted at least ENOUGH of the
# wrong answers before training, training righted a share near RIGHTED; with less the share was
# anything. They all learn a rule that problems share. There is one where feedback on other problems
# (`rltf/feedback=shuffled`) rights answers too: docs/measuring.md.
ENOUGH, RIGHTED, RUNS = 0.3, 0.83, 12
ERROR = 0.10
"""Root mean square error of RIGHTED, the mean of some of the runs, for the others."""


@dataclass(frozen=True)
class FeedbackSetting:
    """The feedback of the episodes."""

    provider: str
    options: Mapping[str, Any]
    guard: str
    """`rltf.feedback.guard.action`."""
    acknowledged: bool
    """The provider is meant to tell the answer."""
    revise: str | None
    """`rltf.episode.revise`; None where the log does not name the template that fitted."""
    context: str | None
    """`rltf.episode.context`."""

    @property
    def may_tell(self) -> bool:
        """The provider may state the answer, or is the policy, which knows no other."""
        return self.acknowledged or self.provider == "policy"


@dataclass(frozen=True)
class Probe:
    """Everything that findings are taken from."""

    measured: Measured
    run: TrainingRun
    setting: FeedbackSetting

    def __getitem__(self, name: str) -> Estimate:
        return self.measured.shares[name]

    def decide(self, rule: str) -> Decision:
        """The side of its threshold that a share's whole interval is on."""
        threshold = THRESHOLDS[rule]
        low, high = bounds(self[threshold.measure])
        # the whole interval must lie on one side, so that few episodes decide nothing
        beyond, short = low >= threshold.at, high < threshold.at
        if threshold.below:
            beyond, short = short, beyond
        if beyond:
            return "holds"
        return "fails" if short else "inconclusive"

    def holds(self, rule: str) -> bool:
        """The share is certainly beyond."""
        return self.decide(rule) == "holds"

    @property
    def copies(self) -> bool:
        """Right second answers may be copies: the answer reaches the policy, and is not meant
        to.
        """
        return not self.setting.may_tell and self.holds("copies")

    @property
    def learns_later(self) -> bool:
        """Second answers are right where the first were wrong, and are no copies."""
        return self.holds("preset") and not self.copies

    @property
    def can_choose(self) -> bool:
        """Second answers say something about the method."""
        return self["corrected"].cases > 0 and not self.copies


@dataclass(frozen=True)
class Threshold:
    """Threshold at which a share becomes a finding."""

    measure: str
    at: float
    below: bool = False
    """The finding is a share below it."""
    asked: Callable[[Probe], bool] | None = None
    """Condition under which an interval around it leaves the verdict open; None: never."""


def _has_cases(measure: str) -> Callable[[Probe], bool]:
    return lambda p: p[measure].cases > 0


def _is_mixed(p: Probe) -> bool:
    """Neither all groups fail nor all succeed."""
    return p.decide("never_right") == p.decide("always_right") == "fails"


def _tells(p: Probe) -> bool:
    """The provider is another than the policy, and says something."""
    return p["tells"].cases > 0 and p.setting.provider != "policy"


THRESHOLDS = {
    # fewer than one problem in five of a batch moves the first answer
    "never_right": Threshold("all_wrong_groups", 0.8, asked=lambda p: True),
    "always_right": Threshold("all_right_groups", 0.8, asked=_has_cases("all_right_groups")),
    "dead_groups": Threshold("dead_groups", 0.8, asked=_is_mixed),
    # every fifth second answer may be a copy
    "feedback_tells": Threshold("tells", 0.2, asked=_tells),
    "copies": Threshold("reaches", 0.2),
    # nine second answers in ten are the first one, paid for twice
    "nothing_changes": Threshold("wrong_changed", 0.1, below=True, asked=lambda p: True),
    # the prompt and the grader seem to disagree about the form of an answer
    "no_answer": Threshold("first_format", 0.5, below=True, asked=_has_cases("first_format")),
    # the limit decides the verdict of those
    "cut_off": Threshold("truncated", 0.2, asked=_has_cases("truncated")),
    # their attempts are cut, or their episodes end
    "too_long": Threshold("over_budget", 0.1, asked=_has_cases("over_budget")),
    "feedback_fails": Threshold("failed", 0.1),
    "says_nothing": Threshold("says_nothing", 0.5),
    # below it a second turn is no teacher; "most" are right above the other (docs/methods.md)
    "preset": Threshold("corrected", 0.05, asked=lambda p: p.can_choose),
    "most": Threshold("corrected", 0.5),
}
"""Conventions, by the name of the finding."""

_COPY = "a second answer can be a copy, its accuracy says nothing about learning, and SD distils it"


def _beyond(
    key: str,
    why: str,
    fix: str,
    level: Level = "error",
    also: Callable[[Probe], bool] = lambda p: True,
) -> Rule[Probe]:
    """A row for a share that is certainly beyond its threshold, and of which `also` is true."""
    return Rule(key, lambda p: p.holds(key) and also(p), why, fix, level)


GROUPS = (
    _beyond(
        "never_right",
        (
            "so many groups of {n} fail at every first answer and teach GRPO nothing, but feedback"
            " corrects {corrected} of the wrong ones"
        ),
        "begin with --config-name=rltf_sd",
        also=lambda p: p.learns_later,
        level="note",
    ),
    _beyond(
        "never_right",
        (
            "the base solves {first_right} of first answers; groups of {n} that all fail teach GRPO"
            " nothing, and feedback corrects {corrected} of the wrong ones"
        ),
        (
            "take easier problems (data.train_files=…) or a stronger base"
            " (actor_rollout_ref.model.path=…){stronger}"
        ),
        also=lambda p: not p.learns_later,
    ),
    _beyond(
        "always_right",
        (
            "so many groups of {n} are all right at once: nothing is left to learn, and a solved"
            " episode has no second turn"
        ),
        "take harder problems (data.train_files=…)",
    ),
    _beyond(
        "dead_groups",
        (
            "GRPO compares the answers of a group, and in these they are equal; SD learns from"
            " second answers"
        ),
        "take problems that are solved now and then, or actor_rollout_ref.rollout.n={twice_n}",
        also=lambda p: _is_mixed(p) and p.holds("preset"),
        level="note",
    ),
    _beyond(
        "dead_groups",
        "GRPO compares the answers of a group, and in these they are equal",
        "take problems that are solved now and then, or actor_rollout_ref.rollout.n={twice_n}",
        also=lambda p: _is_mixed(p) and not p.holds("preset"),
    ),
)
FEEDBACK = (
    _beyond(
        "feedback_tells",
        (
            f"the feedback ({{provider}}) gives the answer away, as acknowledge_leaks allows:"
            f" {_COPY}"
        ),
        "set {less} if it is not meant",
        also=lambda p: _tells(p) and p.setting.may_tell,
        level="note",
    ),
    _beyond(
        "feedback_tells",
        (
            "the feedback ({provider}) gives the answer away, and {reaches} of it reach the policy"
            f" (withheld: {{withheld}}): {_COPY}, or the guard cuts what the provider is paid for"
        ),
        "set {less}",
        also=lambda p: _tells(p) and not p.setting.may_tell,
    ),
    _beyond(
        "nothing_changes",
        (
            "so few wrong answers change after feedback ({corrected} become right): the second turn"
            " costs a turn and teaches what the first one did"
        ),
        "read the episodes with rltf inspect{stronger}",
    ),
)
LIMITS = (
    _beyond(
        "no_answer",
        (
            "so few first answers hold an answer: feedback then teaches the form, and the form is"
            " distilled"
        ),
        (
            "ask for the form that rltf.env.name reads (rltf data check), or raise"
            " data.max_response_length if answers are cut off before they come to it"
        ),
    ),
    _beyond(
        "cut_off",
        "answers cut off at {answer_tokens} tokens mostly hold no answer",
        "set data.max_response_length={twice_answer_tokens}",
    ),
    _beyond(
        "too_long",
        (
            "later prompts above {prompt_tokens} tokens: training cuts the quoted attempt, or"
            " ends the"
            " episode where nothing is left to cut"
        ),
        "set data.max_prompt_length={enough}",
    ),
    _beyond(
        "feedback_fails",
        (
            "feedback was asked for and did not come: those episodes have no second turn, or get a"
            " fixed sentence"
        ),
        (
            "read why with rltf inspect; for a busy endpoint set"
            " rltf.feedback.limits.max_attempts=16"
        ),
    ),
)
ASIDE: tuple[Rule[Probe], ...] = (
    _beyond(
        "says_nothing",
        (
            "feedback holds no more than right or wrong: nothing to predict (fm), little to"
            " learn from"
        ),
        "set rltf.feedback.level=hint with rltf/feedback=verifier, or rltf/feedback=judge",
        level="note",
    ),
    Rule(
        "mentions",
        lambda p: (p["mentions"].value or 0.0) >= MENTIONS,
        (
            "second answers mention the feedback: distilled, first answers mention what they"
            " have not seen"
        ),
        "set rltf.mentions.action=mask",
        level="note",
    ),
)
PRESETS: tuple[Rule[Probe], ...] = (
    Rule(
        "preset",
        lambda p: p.can_choose and p.holds("most"),
        (
            "most wrong answers become right after feedback, so nearly all that is distilled is"
            " right"
        ),
        (
            "begin with --config-name=rltf_sd, and rltf/method=sft as the control: with an exact"
            " verifier both end alike"
        ),
        level="note",
    ),
    Rule(
        "preset",
        lambda p: p.learns_later and not p.holds("most"),
        "some wrong answers become right after feedback, and SD learns from the wrong ones too",
        "begin with --config-name=rltf_sd, and --config-name=rltf_grpo_single as the control",
        level="note",
    ),
    Rule(
        "preset",
        lambda p: _hardly_corrects(p) and p.holds("dead_groups") and not p.holds("says_nothing"),
        "neither second answers nor groups teach yet; predicting the feedback has a gradient",
        "begin with --config-name=rltf_fm",
        level="note",
    ),
    Rule(
        "preset",
        lambda p: _hardly_corrects(p) and not p.holds("dead_groups"),
        "second turns do not repay their price yet; first answers have a signal",
        "begin with --config-name=rltf_grpo_single, and probe stronger feedback before rltf_sd",
        level="note",
    ),
)
RULES = (*GROUPS, *FEEDBACK, *LIMITS, *ASIDE, *PRESETS)
"""A row without a level blocks: do not train before it is changed."""


def _hardly_corrects(p: Probe) -> bool:
    return p.can_choose and p.decide("preset") == "fails"


def advise(probe: Probe) -> tuple[Verdict, list[Finding], dict[str, str]]:
    """The verdict, the findings, and by its rule each question that the episodes leave open.

    `change first` if a finding that blocks is certain, `too few episodes` if a question is open,
    else `go`.
    """
    certain = list(findings(RULES, probe, _facts(probe)))
    unsure = {
        rule: _question(probe, threshold)
        for rule, threshold in THRESHOLDS.items()
        if threshold.asked and threshold.asked(probe) and probe.decide(rule) == "inconclusive"
    }
    if any(finding.level == "error" for finding in certain):
        return "change first", certain, unsure
    return "too few episodes" if unsure else "go", certain, unsure


def _question(probe: Probe, threshold: Threshold) -> str:
    label = LABELS[threshold.measure].format(**asdict(probe.run))
    side = "below" if threshold.below else "from"
    matters = f"it matters {side} {100 * threshold.at:g} %"
    return f"{label}: {share_text(probe[threshold.measure])}; {matters}"


def _facts(p: Probe) -> dict[str, Any]:
    """Values of the findings, and what their templates name."""
    run = p.run
    prompts = p.measured.lengths.get("later_prompt_tokens")
    # a prompt that was cut has no length
    longest = int(prompts.longest) if prompts else 0
    facts: dict[str, Any] = {name: share_text(share) for name, share in p.measured.shares.items()}
    # a finding shows the share that it is about as its value
    facts |= {rule: facts[threshold.measure] for rule, threshold in THRESHOLDS.items()}
    facts |= asdict(run)
    facts |= {"n": run.sessions, "twice_n": 2 * run.sessions}
    facts["twice_answer_tokens"] = 2 * run.answer_tokens
    facts["enough"] = longest if longest > run.prompt_tokens else 2 * run.prompt_tokens
    facts |= {"provider": p.setting.provider, "less": _less_telling(p.setting)}
    facts["stronger"] = "".join(f"; or set {change}" for change in _stronger(p.setting))
    return facts


def _less_telling(setting: FeedbackSetting) -> str:
    """Settings under which less of the answer reaches the policy."""
    if setting.provider == "verifier":
        return "rltf.feedback.level=hint"
    if setting.may_tell or setting.guard in ("none", "warn"):
        changes = ["rltf.feedback.guard.action=redact"]
    else:
        changes = ["rltf.feedback.guard.action=regenerate"]
    if setting.provider == "judge" and setting.options.get("reference") is not False:
        changes.append("rltf.feedback.reference=false, which hides the answer from the judge")
    if setting.provider == "judge" and setting.options.get("style") != "main_mistake":
        changes.append("rltf.feedback.style=main_mistake, which asks for one hint")
    return ", or ".join(changes)


def _stronger(setting: FeedbackSetting) -> list[str]:
    """Settings under which feedback says more, or is put in another way."""
    next_level = {"verdict": "location", "location": "hint"}
    level, style = setting.options.get("level"), setting.options.get("style")
    changes = []
    if setting.provider == "verifier" and level in next_level:
        changes.append(f"rltf.feedback.level={next_level[level]}")
    if setting.provider == "judge" and style != "strong_hint":
        changes.append("rltf.feedback.style=strong_hint")
    if setting.provider in ("correctness", "try_again"):
        changes.append("rltf/feedback=verifier or rltf/feedback=judge")
    if setting.context != "append" and setting.revise in ("guide", "feedback"):
        changes.append("rltf.episode.revise=critique, which quotes the attempt")
    elif setting.context != "append" and style == "guide":
        changes.append("rltf.episode.revise=guide, which does not quote the wrong attempt")
    return changes


def bounds(estimate: Estimate) -> tuple[float, float]:
    """The interval of a share; all there is where fewer than two problems have a case."""
    if estimate.low is None or estimate.high is None:
        return 0.0, 1.0
    return estimate.low, estimate.high


def share_text(share: Estimate) -> str:
    """`62.5 [51.0, 73.1] % of 8`, with the interval that findings go by.

    Example:
        >>> share_text(Estimate(0.5, 0.25, 0.75, problems=4, cases=8))
        '50.0 [25.0, 75.0] % of 8'
    """
    if share.value is None:
        return "not known"
    low, high = bounds(share)
    return f"{in_per_cent(replace(share, low=low, high=high))} % of {share.cases}"


def expected(probe: Probe) -> Estimate | None:
    """Share of right first answers, and within twice the error. None unless the feedback was about
    other problems and certainly righted ENOUGH.
    """
    first, corrected = probe["first_right"], probe["corrected"]
    if first.value is None or not _is_shuffled(probe) or bounds(corrected)[0] < ENOUGH:
        return None
    low, value, high = (
        first.value + (1 - first.value) * min(1.0, RIGHTED + times * ERROR) for times in (-2, 0, 2)
    )
    return Estimate(value, low, high, corrected.problems)


def _is_shuffled(probe: Probe) -> bool:
    return probe.setting.provider == "shuffled"


def expected_line(probe: Probe) -> str:
    """For people."""
    what, estimate = "first answers right after RLTF-SD", expected(probe)
    if estimate is not None:
        share = in_per_cent(estimate)
        return f"{what}: {share} %, as {RUNS} runs of a small model ended (docs/measuring.md)"
    if _is_shuffled(probe):
        return f"{what}: no prediction, feedback on other problems rights too few answers"
    return f"{what}: no prediction; an evaluation with feedback.provider=shuffled may give it"
