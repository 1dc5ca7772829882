"""When a run is called degenerate: every rule by hand, and that healthy runs stay quiet."""

import random

import pytest

from rltf_verl.runlog.health import RULES, TOO_LONG, Watch, log_changes

RULE = {rule.key: rule for rule in RULES}
HEALTHY = {
    "rltf/turn_1/acc": 0.4,
    "rltf/turn_1/format": 0.95,
    "rltf/turn_1/truncated": 0.02,
    "rltf/turn_2/truncated": 0.04,
    "rltf/turn_2/share": 0.6,
    "rltf/turn_2/corrected": 0.3,
    "rltf/session/prompt_too_long_share": 0.0,
    "rltf/group/dead_share": 0.5,
    "rltf/attempt/adv_abs": 0.3,
    "rltf/distill/adv_abs": 0.2,
    "rltf/distill/adv_mean": 0.02,
    "rltf/distill/log_prob_gap": 1.0,
    "rltf/feedback/failed_share": 0.0,
    "rltf/feedback/fallback_share": 0.0,
    "rltf/feedback/recited": 0.0,
    "rltf/grader/error_share": 0.0,
    "rltf/grader/ungraded_share": 0.0,
    "rltf/feedback_modeling/untrained_share": 0.5,
    "rltf/worker/loop_lag_p99_s": 0.01,
    "rltf/steps/drift": 0.0,
}
COLD = HEALTHY | {
    "rltf/turn_1/acc": 0.0,
    "rltf/group/dead_share": 1.0,
    "rltf/attempt/adv_abs": 0.0,
    "rltf/distill/adv_abs": 0.9,
}


IMITATED = "second answers imitated whatever their grade"
IMITATES = {"rltf/distill/adv_mean": 0.15, "rltf/distill/wrong_share": 0.8}
PARTS = {"rltf/distill/partial_share": 0.9}
THINKING = HEALTHY | {
    "rltf/turn_1/tokens": 900.0,
    "rltf/turn_1/thoughts": 0.8,
    "rltf/turn_1/epistemic": 2.0,
}


def played(*steps, watch=None):
    """[(step, rule, fires)] of steps from 1 on."""
    watch = watch or Watch()
    changes = [change for step, now in enumerate(steps, 1) for change in watch.look(step, now)]
    return [(change.step, change.rule.key, change.fires) for change in changes]


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("all groups dead", COLD | {"rltf/distill/adv_abs": 0.0, "rltf/turn_1/acc": 0.4}),
        ("feedback unused", HEALTHY | {"rltf/turn_2/corrected": 0.02}),
        ("judge mostly down", HEALTHY | {"rltf/feedback/failed_share": 0.5}),
        ("judge mostly down", HEALTHY | {"rltf/grader/ungraded_share": 0.6}),
        ("judge mostly down", HEALTHY | {"rltf/feedback/judge/failed_share": 0.9}),
        ("grader raises", HEALTHY | {"rltf/grader/error_share": 0.1}),
        ("answers mostly cut off", HEALTHY | {"rltf/turn_1/truncated": 0.5}),
        ("answers mostly cut off", HEALTHY | {"rltf/turn_2/truncated": 0.7}),
        ("feedback not predicted", HEALTHY | {"rltf/feedback_modeling/untrained_share": 1.0}),
        ("answers recite feedback", HEALTHY | {"rltf/feedback/recited": 0.2}),
        ("later prompts mostly too long", HEALTHY | {TOO_LONG: 1.0, "rltf/turn_2/share": 0.0}),
        ("later prompts mostly too long", HEALTHY | {TOO_LONG: 0.3, "rltf/turn_2/share": 0.2}),
        ("agent loop held up", HEALTHY | {"rltf/worker/loop_lag_p99_s": 0.6}),
        ("tokens drift", HEALTHY | {"rltf/steps/drift": 0.001}),
        (IMITATED, HEALTHY | IMITATES),
        (IMITATED, HEALTHY | IMITATES | {"rltf/distill/wrong_share": 0.2} | PARTS),
        ("advantages out of scale", HEALTHY | {"rltf/attempt/adv_abs": 5e5}),
    ],
)
def test_a_rule_fires_after_its_steps_in_a_row_and_is_over_after_three(name, bad):
    n = RULE[name].steps
    assert played(*[bad] * (n - 1), HEALTHY, *[bad] * (n - 1)) == []
    assert played(*[bad] * (n + 5), HEALTHY, bad, *[HEALTHY] * 3) == [
        (n, name, True),
        (n + 10, name, False),
    ]


def test_all_groups_dead_after_some_were_alive_fires_though_revisions_train():
    once = HEALTHY | {"rltf/turn_1/acc": 0.1}
    assert played(once, *[COLD] * 15) == [(9, "all groups dead", True)]
    assert played(HEALTHY, *[COLD | {"rltf/turn_1/acc": 0.95}] * 30) == []  # solved
    logits = COLD | {"rltf/distill/adv_abs": 0.0, "rltf/logit_distill/weight": 1.0}
    assert played(*[logits] * 30) == []


@pytest.mark.parametrize(
    ("name", "metric", "before", "after"),
    [
        ("answers blow up", "tokens", 900.0, 2000.0),
        ("thoughts collapse", "tokens", 900.0, 340.0),
        ("words of doubt repeated", "epistemic", 2.0, 4.4),
        ("words of doubt lost", "epistemic", 2.0, 0.8),
    ],
)
def test_thoughts_that_grow_or_shrink_without_a_gain(name, metric, before, after):
    """The mean of ten steps is twice or half the first ten's with the ninth such step."""
    changed = THINKING | {f"rltf/turn_1/{metric}": after}
    assert played(*[THINKING] * 10, *[changed] * 30) == [(28, name, True)]
    better = changed | {"rltf/turn_1/acc": 0.55}
    assert played(*[THINKING] * 10, *[better] * 30) == []
    answers = [{**step, "rltf/turn_1/thoughts": 0.1} for step in [THINKING] * 10 + [changed] * 30]
    assert played(*answers) == [], "a model that does not think"
    less = THINKING | {f"rltf/turn_1/{metric}": before + 0.4 * (after - before)}
    assert played(*[THINKING] * 10, *[less] * 30) == []


SECONDS = [0.94, 0.88, 0.88, 0.81, *[0.0] * 12]
"""Second answers of `make demo`, GRPO, whose groups were all dead."""


def test_a_run_of_sixteen_steps_whose_second_answers_were_lost_says_so(caplog):
    watch = Watch()
    for k, share in enumerate(SECONDS, 1):
        step = COLD | {"rltf/session/total": 32.0, "rltf/distill/adv_abs": 0.0}
        step |= dict.fromkeys(("rltf/turn_2/standing", "rltf/turn_2/corrected"), share)
        step["rltf/attempt/adv_abs"] = 0.1 * (share > 0)
        numbers = log_changes(watch, k, step, resume="go back before step {}".format)
    assert watch.firing == {"last answers lost": 7, "all groups dead": 8, "feedback unused": 16}
    assert numbers == {"rltf/warnings": 3.0}
    assert "go back before step 4" in caplog.messages[0], "the last good step"


@pytest.mark.parametrize(
    ("name", "metric"),
    [
        ("first answers lost", "rltf/turn_1/acc"),
        ("last answers lost", "rltf/turn_2/standing"),
        ("policy lost", "rltf/turn_1/format"),
    ],
)
def test_what_was_there_and_is_below_a_third_of_its_best_for_three_steps_is_lost(name, metric):
    def fired(*shares, num=1e9):
        steps = [{metric: share, "rltf/session/total": num} for share in shares]
        return [change for change in played(*steps) if change[1] == name]

    assert fired(0.3, 0.9, 0.29, 0.29, 0.29) == [(5, name, True)]
    assert fired(0.9, 0.31, 0.31, 0.31, 0.31) == [], "above a third"
    assert fired(0.9, 0.0, 0.0, 0.3, 0.9, 0.0, 0.0, 0.9) == [], "for two steps"
    assert fired(0.19, *[0.0] * 9) == [], "never there"
    assert fired(0.5, *[0.1] * 9, num=16) == [], "8 of 16, then 2: four standard errors are 8"
    assert fired(1.0, *[0.25] * 9, num=4) == [], "4 of 4, then 1"
    assert fired(1.0 + 1e-12, 0.0, 0.0, 0.0) == [(4, name, True)], "a mean that was rounded up"
    assert fired(11 / 32, *[0.0] * 3, num=32) == [(4, name, True)]
    assert fired(0.15, 10 / 32, *[0.0] * 9, num=32) == [], "the best of many steps with a seventh"
    assert fired(*[0.0] * 9, 0.5, 0.9) == [], "a cold start"


def test_of_many_turns_the_last_counts():
    steps = [{"rltf/turn_2/standing": 0.1, "rltf/turn_10/standing": s} for s in (0.9, 0, 0, 0)]
    assert played(*steps) == [(4, "last answers lost", True)]


def test_noise_is_no_fall():
    rng = random.Random(0)
    steps = [
        {
            "rltf/turn_1/acc": sum(rng.random() < 0.5 for _ in range(48)) / 48,
            "rltf/distill/log_prob_gap": 0.997**k,
        }
        for k in range(600)
    ]
    assert played(*steps) == []


@pytest.mark.parametrize(
    "step",
    [
        {"rltf/feedback/failed_share": 0.6, "rltf/feedback/withheld_share": 0.6},  # by the guard
        {TOO_LONG: 0.4},  # and 0.6 have a second answer
        {TOO_LONG: 0.04, "rltf/turn_2/share": 0.0},  # solved
        {"rltf/turn_2/corrected": 0.0, "rltf/turn_1/acc": 0.95},
        {"rltf/turn_2/corrected": 0.0, "rltf/turn_2/share": 0.04},
        COLD,  # all groups are dead, and revisions train it
        # feedback makes answers better, and none right
        {"rltf/turn_2/corrected": 0.0, "rltf/turn_1/reward": 0.4, "rltf/turn_2/reward": 0.6},
        # right ones are imitated; wrong ones too, against siblings; all, mostly with a 1
        {"rltf/distill/adv_mean": 0.2, "rltf/distill/wrong_share": 0.1},
        {"rltf/distill/adv_mean": 0.02, "rltf/distill/wrong_share": 1.0} | PARTS,
        {"rltf/distill/adv_mean": 0.2, "rltf/distill/wrong_share": 0.0}
        | {"rltf/distill/partial_share": 0.3},
    ],
)
def test_what_is_no_news(step):
    assert played(*[HEALTHY | step] * 300) == []


def test_steps_that_lack_a_metric_count_neither_way():
    bad, gap = HEALTHY | {"rltf/turn_1/truncated": 0.5}, {"perf/throughput": 1.0}
    assert played(*[bad, gap] * 10) == [(19, "answers mostly cut off", True)]
    watch = Watch()
    played(*[bad] * 10, *[gap] * 50, watch=watch)
    assert watch.firing == {"answers mostly cut off": 10}


def test_a_step_of_several_updates_counts_once():
    watch, bad = Watch(), HEALTHY | {"rltf/turn_1/truncated": 1.0}
    for step in range(1, 10):
        assert not any(watch.look(step, bad) for _ in range(4))
    assert [change.fires for change in watch.look(10, bad)] == [True]


def test_a_healthy_run_from_cold_to_solved_is_quiet():
    rng, steps = random.Random(1), []
    for k in range(400):
        acc = min(0.98, 0.003 * k)
        dead = 1.0 if acc < 0.03 else max(acc**8, 0.5)
        steps.append(
            HEALTHY
            | {
                "rltf/turn_1/acc": min(1.0, max(0.0, acc + rng.gauss(0, 0.05))),
                "rltf/turn_1/format": min(1.0, 0.1 + k / 50),
                "rltf/turn_1/truncated": max(0.02, 0.9 - k / 10),
                "rltf/turn_2/corrected": 0.0 if k < 10 else 0.3,
                "rltf/group/dead_share": dead,
                "rltf/distill/log_prob_gap": 1.5 * 0.99**k,
            }
        )
    assert played(*steps) == []


def test_the_log_has_one_line_when_a_rule_fires_and_one_when_it_is_over(caplog):
    watch, failures = Watch(), ["http://judge/v1: refused: HTTP 401"]
    bad = HEALTHY | {"rltf/feedback/fallback_share": 0.8}
    numbers = [log_changes(watch, k, bad if k < 9 else HEALTHY, failures.pop) for k in range(1, 20)]
    assert [n["rltf/warnings"] for n in numbers] == [0.0] * 2 + [1.0] * 8 + [0.0] * 9
    fires, over = caplog.messages
    assert fires.startswith("warning at step 3: judge mostly down for 3 steps; ")
    assert fires.endswith(". Last failure: http://judge/v1: refused: HTTP 401")
    assert over == "recovered at step 11: judge mostly down"
    assert failures == [], "asked when the line is written, and only then"
