"""Signs that a run degenerates: rules over the metrics of its steps, for the trainer and for the
viewer.

A rule fires when it holds in several steps in a row, and is over after `CLEAR` steps in a row in
which it does not. A step that lacks a rule's metrics counts neither way.
"""

from __future__ import annotations

import logging
import math
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import NamedTuple

from rltf_verl.findings import Rule

logger = logging.getLogger(__name__)

Metrics = Mapping[str, float]
METRIC = "rltf/warnings"
"""Number of rules that fire at a step."""

# Thresholds. A cold policy, whose groups are all dead while revisions train it, must not fire.
DEAD = 0.99
"""Dead groups of all groups: with 1 % alive there is still a gradient."""
LIVE = 0.8
"""At most this share dead: first answers did train something. docs/metrics.md calls more bad."""
SOLVED = 0.95
"""First answers right: with more, groups are dead because nothing is left to learn."""
STILL = 1e-6
"""Mean |advantage| of an objective that trains nothing."""
ACC_LEAST = 0.1
"""Accuracy that a policy must have gained for its thoughts to be better, not only others."""
UNUSED = 0.02
"""Revisions of wrong answers that are right: with 1 in 50 there is nothing to distil."""
BETTER = 0.1
"""Reward that an answer gains by its form alone (`rltf.reward.format_coef`)."""
REVISED, TO_REVISE = 0.05, 0.9
"""At least this share of episodes has a revision, and at most this share of first answers is right:
else too few wrong answers were revised to tell."""
DOWN = 0.5
"""Share of requests, calls or verdicts that failed, where the guard kept nothing back."""
RAISES = 0.05
"""Share of answers whose grader raised. Where it raises on a kind of problem, all answers to that
kind count as wrong."""
CUT = 0.5
"""Share of a turn's answers that were cut off. Below, most answers are still graded as the policy
meant them; docs/metrics.md calls 0.05 bad, which is no degeneration."""
LAGS = 0.5
"""Seconds that an agent-loop worker's event loop is late at 1 % of the time: as long as many
requests."""
DRIFTS = 1e-6
"""Observations per attempt before which the sampled tokens were not kept: one of a million."""
RECITED = 0.1
"""Share of the answers with feedback that have its first sentence. Healthy runs had none. Where
feedback words one thing in several ways, an answer that recites seldom has the same words."""
UNTRAINED = 0.9
"""Share of revised attempts whose feedback trains no token: half where the policy writes half of
the feedback."""
THINKS = 0.2
"""Thoughts' share of the first answers: below, the model does not think."""
LOST, HAD, LOST_T = 1 / 3, 0.2, 4.0
"""Below a third of the best step, which was at least 0.2, by four standard errors of a step: the
best of many noisy steps is always above the present one."""
OUT_OF_SCALE = 10.0
"""Mean |advantage|: scores in [0, 1] give at most 1, standardised ones hardly more."""
LEAN = 0.5
"""Share of the pulls that go to wrong second answers. Mean advantage over mean |advantage|: pulls
are three times the pushes; against siblings of the same turn it is near 0."""
CLEAR = 3
"""Steps in a row after which a rule that fired is over."""
WINDOW = 10
"""Steps of a mean of thoughts."""

ACC, FORMAT, LAST = "rltf/turn_1/acc", "rltf/turn_1/format", "standing"
"""The last is that after the last turn, see `Watch.look`."""
_STANDING = re.compile(r"rltf/turn_(\d+)/standing")
ATTEMPT = "rltf/attempt/adv_abs"
TOKENS, THOUGHTS, EPISTEMIC = (
    "rltf/turn_1/tokens",
    "rltf/turn_1/thoughts",
    "rltf/turn_1/epistemic",
)
TOO_LONG, REVISIONS = "rltf/session/prompt_too_long_share", "rltf/turn_2/share"
UNPREDICTED = "rltf/feedback_modeling/untrained_share"
_JUDGE = "judge/failed_share"
RESUME = "resume from an earlier checkpoint"
"""`log_changes` puts the checkpoint's step in its place."""


@dataclass(frozen=True)
class Seen:
    """Events of a run so far, however long ago."""

    live: bool = False
    """A step with at most `LIVE` dead groups."""
    best: Mapping[str, float] = field(default_factory=dict)
    """The best step of `ACC`, `FORMAT` and `LAST`."""
    first: Mapping[str, float] = field(default_factory=dict)
    """Means of the first `WINDOW` steps in a row."""


class Steps(NamedTuple):
    """The subject of a rule."""

    recent: Sequence[Metrics]
    """The last steps, newest last."""
    seen: Seen
    """The history before them."""

    @property
    def now(self) -> Metrics:
        """The newest step."""
        return self.recent[-1]


class Change(NamedTuple):
    """A rule that fires, or is over, from a step on."""

    rule: Rule[Steps]
    step: int
    fires: bool


def groups_dead(steps: Steps) -> bool | None:
    """No group's first answers differ in reward, not because they are all right; and no other
    objective trains, or the run had live groups before.

    >>> dead = {"rltf/group/dead_share": 1.0}
    >>> groups_dead(Steps([dead | {"rltf/distill/adv_abs": 0.9}], Seen()))
    False
    >>> groups_dead(Steps([dead | {"rltf/distill/adv_abs": 0.0}], Seen()))
    True
    """
    now = steps.now
    dead = now.get("rltf/group/dead_share")
    if dead is None:
        return None
    if dead < DEAD or now.get(ACC, 0.0) >= SOLVED:
        return False
    # Attempts' own is of second answers here, or of what these add to first ones.
    trained = [
        value
        for name, value in now.items()
        if name.startswith("rltf/") and name.endswith("/adv_abs") and name != ATTEMPT
    ]
    # this objective logs no advantage; its weight tells whether it trains
    trained.append(now.get("rltf/logit_distill/weight", 0.0))
    return steps.seen.live or all(value <= STILL for value in trained)


def feedback_unused(steps: Steps) -> bool | None:
    """Feedback on a wrong answer leads neither to a right one nor to a better grade."""
    now = steps.now
    corrected = now.get("rltf/turn_2/corrected")
    if corrected is None or now.get(REVISIONS, 1.0) < REVISED:
        return None
    gain = now.get("rltf/turn_2/reward", 0.0) - now.get("rltf/turn_1/reward", 0.0)
    return corrected <= UNUSED and gain <= BETTER and now.get(ACC, 0.0) <= TO_REVISE


def judge_down(steps: Steps) -> bool | None:
    """Most feedback or most verdicts fail."""
    now = steps.now
    failed = [now.get(f"rltf/feedback/{name}_share") for name in ("failed", "fallback")]
    shares = [now[name] for name in now if name.endswith(_JUDGE)]
    if any(share is not None for share in failed):
        withheld = now.get("rltf/feedback/withheld_share", 0.0)
        # what the guard kept back failed on purpose
        shares.append(sum(share or 0.0 for share in failed) - withheld)
    if "rltf/grader/ungraded_share" in now:
        shares.append(now["rltf/grader/ungraded_share"])
    return max(shares) >= DOWN if shares else None


def judge_away(steps: Steps) -> bool | None:
    """The same, and the endpoint answers nothing: it did not refuse single questions."""
    away = any(value for name, value in steps.now.items() if name.endswith("/breaker"))
    return judge_down(steps) and away


def at_least(bound: float, *names: str) -> Callable[[Steps], bool | None]:
    """One of the shares is that large; None where the step lacks all."""

    def holds(steps: Steps) -> bool | None:
        shares = [steps.now[name] for name in names if name in steps.now]
        return max(shares) >= bound if shares else None

    return holds


def lost(name: str) -> Callable[[Steps], bool | None]:
    """The share falls below `LOST` of its best step."""

    def holds(steps: Steps) -> bool | None:
        now, best = steps.now.get(name), steps.seen.best.get(name, 0.0)
        if now is None:
            return None
        # the largest error of any share between the two: a best step of 1.0 proves little of few
        share = min(best, 0.5)
        error = math.sqrt(share * (1 - share) / steps.now.get("rltf/session/total", math.inf))
        return best > max(HAD, now / LOST, now + LOST_T * error)

    return holds


def imitates_all(steps: Steps) -> bool | None:
    """Distillation pulls towards second answers whatever their grade, most of them not right."""
    mean, size = (steps.now.get(f"rltf/distill/adv_{name}", 0.0) for name in ("mean", "abs"))
    not_right = at_least(LEAN, "rltf/distill/wrong_share", "rltf/distill/partial_share")
    return mean > LEAN * size and not_right(steps)


def drifted(name: str, factor: float) -> Callable[[Steps], bool | None]:
    """A model that thinks has that many times as much of it as in its first ten steps, or less for
    a factor below 1, and is not more often right.
    """

    def holds(steps: Steps) -> bool | None:
        first = steps.seen.first
        start, now, acc = first.get(name), _mean(steps.recent, name), _mean(steps.recent, ACC)
        if start is None or now is None or acc is None or first[THOUGHTS] < THINKS:
            return None
        moved = now >= factor * start if factor > 1 else now <= factor * start
        return start > 0 and moved and acc < first[ACC] + ACC_LEAST

    return holds


def prompts_too_long(steps: Steps) -> bool | None:
    """Most episodes that would have a second answer have none, because its prompt does not fit."""
    long = steps.now.get(TOO_LONG)
    if long is None:
        return None
    return long >= REVISED and long >= CUT * (long + steps.now.get(REVISIONS, 0.0))


def _warning(
    key: str, when: Callable[[Steps], bool | None], fix: str, steps: int = 1
) -> Rule[Steps]:
    return Rule(key, when, why="", fix=fix, level="warning", steps=steps)


RULES = (
    # 8 steps: a run of 16 must be able to end with it. With 4 groups, each dead nine times in ten,
    # 8 in a row are dead by chance once in 30 times, and still trained nothing
    _warning(
        "all groups dead",
        groups_dead,
        "first answers train nothing: easier problems, a larger rollout.n, rltf.refill_rounds",
        steps=8,
    ),
    # 3 steps: one bad step may be undone by the next, three seldom are
    _warning(
        "first answers lost",
        lost(ACC),
        "first answers were right and no longer are: lower the learning rate, or the weight of"
        f" distillation, {RESUME}",
        steps=3,
    ),
    _warning(
        "last answers lost",
        lost(LAST),
        f"answers after feedback were right and no longer are: lower the learning rate, {RESUME}",
        steps=3,
    ),
    _warning(
        "policy lost",
        lost(FORMAT),
        "first answers had a readable form and no longer do: lower the learning rate, raise"
        f" rltf.reward.format_coef, {RESUME}",
        steps=3,
    ),
    # 12 steps: a policy may have to learn the form of a revision first, in a run of 16
    _warning(
        "feedback unused",
        feedback_unused,
        "revisions of wrong answers stay wrong: read them in rltf view; a higher"
        " rltf.feedback.level, another provider or rltf.episode.revise",
        steps=12,
    ),
    # 5 steps: a policy that has no format yet learns it from wrong answers
    _warning(
        "second answers imitated whatever their grade",
        imitates_all,
        "nearly all are distilled, most of them not right: set rltf.distill.baseline to rejection",
        steps=5,
    ),
    # 1 step: it may be enough to lose a policy
    _warning(
        "advantages out of scale",
        at_least(OUT_OF_SCALE, "rltf/attempt/adv_abs", "rltf/distill/adv_abs"),
        "let the grader's scores lie in [0, 1]",
    ),
    # 3 steps: an endpoint that restarts is away for a step or two; every step without it is lost
    _warning(
        "judge mostly down",
        judge_down,
        "read rltf/feedback/judge/failed/…, and the errors of turns in rltf view",
        steps=3,
    ),
    # 3 steps: a program that kills its grader is no fault of the task
    _warning(
        "grader raises",
        at_least(RAISES, "rltf/grader/error_share"),
        "answers count as wrong because the grader raises: rltf inspect names the error; fix"
        " the grader and start again",
        steps=3,
    ),
    # 10 steps: a policy that rambles at first may learn to be short
    _warning(
        "answers mostly cut off",
        at_least(CUT, "rltf/turn_1/truncated", "rltf/turn_2/truncated"),
        "raise data.max_response_length",
        steps=10,
    ),
    # 3 steps: short problems may come later; every step without such rows trains something else
    _warning(
        "feedback not predicted",
        at_least(UNTRAINED, UNPREDICTED),
        "raise data.max_prompt_length, or choose a shorter rltf.feedback_modeling.critic or a"
        " filter that keeps more",
        steps=3,
    ),
    # 3 steps: in our runs it took two to come, and it stayed
    _warning(
        "answers recite feedback",
        at_least(RECITED, "rltf/feedback/recited"),
        "the policy answers with the words of its feedback: leave out what most feedback says"
        f" (rltf.feedback_modeling.filter), or lower the learning rate, {RESUME}",
        steps=3,
    ),
    # 3 steps: feedback that is long once may be short again; every step without revisions is lost
    _warning(
        "later prompts mostly too long",
        prompts_too_long,
        "raise data.max_prompt_length, or have shorter feedback (rltf.feedback.style or level)",
        steps=3,
    ),
    # 10 steps: two windows of ten steps that share none
    *(
        _warning(
            key,
            drifted(name, factor),
            "the policy thinks otherwise and not better: contrast the teacher"
            f" (rltf.teacher.against), lower the weight of distillation, {RESUME}",
            steps=10,
        )
        for key, name, factor in (
            # Papers report such blow-ups and collapses (arXiv 2606.11709, 2607.02234).
            ("answers blow up", TOKENS, 2.0),
            ("thoughts collapse", TOKENS, 0.5),
            ("words of doubt repeated", EPISTEMIC, 2.0),
            ("words of doubt lost", EPISTEMIC, 0.5),
        )
    ),
    _warning(
        "agent loop held up",
        at_least(LAGS, "rltf/worker/loop_lag_p99_s"),
        "raise actor_rollout_ref.rollout.agent.num_workers; let a grader that computes for long do"
        " so in another process",
        steps=3,
    ),
    # 1 step: none may drift
    _warning(
        "tokens drift",
        at_least(DRIFTS, "rltf/steps/drift"),
        "the chat template rewrites earlier answers of a trajectory, so a server would show the"
        " policy another one than it is trained on: choose another template",
    ),
)
"""The key of each is its name in the log and on the page."""


@dataclass
class _Streak:
    bad: int = 0
    good: int = 0
    since: int | None = None
    """Step at which the rule fired."""


@dataclass
class Watch:
    """The rules over the steps of one process or one history, in order."""

    rules: Sequence[Rule[Steps]] = RULES
    seen: Seen = field(default_factory=Seen)
    step: int | None = None
    """The last one that was looked at."""

    def __post_init__(self) -> None:
        self._recent: deque[Metrics] = deque(maxlen=WINDOW)
        self._streaks = {rule.key: _Streak() for rule in self.rules}

    @property
    def firing(self) -> dict[str, int]:
        """Name of each rule that fires -> the step since which it does."""
        return {name: s.since for name, s in self._streaks.items() if s.since is not None}

    def look(self, step: int, metrics: Metrics) -> list[Change]:
        """The changes of this step. Another update of the same step changes nothing."""
        if step == self.step:
            return []
        self.step = step
        turns = {int(m[1]): n for n in metrics if (m := _STANDING.fullmatch(n))}
        last = {LAST: metrics[turns[max(turns)]]} if turns else {}
        self._recent.append({**metrics, **last})
        steps = Steps(tuple(self._recent), self.seen)
        # before this step is part of what was seen: it is compared with earlier ones
        changes = [self._judge_rule(rule, rule.when(steps)) for rule in self.rules]
        self.seen = seen_with(*steps)
        return [change for change in changes if change is not None]

    def _judge_rule(self, rule: Rule[Steps], holds: object) -> Change | None:
        streak = self._streaks[rule.key]
        if holds is None or self.step is None:
            return None
        streak.bad, streak.good = (streak.bad + 1, 0) if holds else (0, streak.good + 1)
        if streak.since is None and streak.bad >= rule.steps:
            streak.since = self.step
            return Change(rule, self.step, fires=True)
        if streak.since is not None and streak.good >= CLEAR:
            streak.since = None
            return Change(rule, self.step, fires=False)
        return None


def end_rules(stop_after: int | None, *, waits: bool) -> list[Rule[Steps]]:
    """Rules that end a run after `stop_after` steps in a row in which most feedback failed.

    Without that number a run that `waits` for its judge ends after one step that the judge was away
    for, or after 3 of other causes: a step may ask a single question, and the judge refuse it.
    """
    steps = {judge_down: stop_after or 3 * waits, judge_away: int(waits and not stop_after)}
    return [Rule(when.__name__, when, "", "", steps=n) for when, n in steps.items() if n]


def seen_with(recent: Sequence[Metrics], seen: Seen) -> Seen:
    """The history with these last steps."""
    dead = recent[-1].get("rltf/group/dead_share")
    live = seen.live or (dead is not None and dead <= LIVE)
    means = {name: _mean(recent, name) for name in (ACC, TOKENS, THOUGHTS, EPISTEMIC)}
    whole = {name: mean for name, mean in means.items() if mean is not None}
    # the first window that has all of these, once and for all
    first = seen.first or (whole if len(whole) == len(means) else {})
    peak = {
        n: max(now, seen.best.get(n, 0.0))
        for n, now in recent[-1].items()
        if n in (ACC, FORMAT, LAST)
    }
    return Seen(live, {**seen.best, **peak}, first)


def _mean(recent: Sequence[Metrics], name: str) -> float | None:
    """Mean of the last `WINDOW` steps; None if one lacks the metric."""
    values = [now[name] for now in recent[-WINDOW:] if name in now]
    return fmean(values) if len(values) == WINDOW else None


def log_changes(
    watch: Watch,
    step: int,
    metrics: Metrics,
    judge_failures: Callable[[], str] = str,
    resume: Callable[[int], str] = lambda _: RESUME,
) -> dict[str, float]:
    """Look at a step of a training, log a line for each change, and return `rltf/warnings`.

    Args:
        watch: has seen the steps before.
        step: its number.
        metrics: of the step.
        judge_failures: the last failure of each judge; called only where a line holds it.
        resume: how to resume from the last checkpoint up to a step, the last before a rule held.
    """
    for rule, at, fires in watch.look(step, metrics):
        if fires:
            last = judge_failures() if rule.when is judge_down else ""
            logger.warning(
                "warning at step %d: %s for %d steps; %s%s",
                at,
                rule.key,
                rule.steps,
                rule.fix.replace(RESUME, resume(at - rule.steps)),
                f". Last failure: {last}" if last else "",
            )
        else:
            logger.warning("recovered at step %d: %s", at, rule.key)
    return {METRIC: float(len(watch.firing))}
