"""Records of an episode log, made by hand."""

from dataclasses import replace

from rltf_verl.episode.acting import trajectory_text
from rltf_verl.runlog.episodes import EpisodeLog, read_episodes
from rltf_verl.types import (
    Action,
    Attempt,
    Episode,
    Feedback,
    Grade,
    PlayedStep,
    Problem,
    Role,
    Step,
    Trajectory,
    Turn,
)

HINT = Feedback("look at row two", "judge", latency_s=0.5, leak="")
EMPTY = Feedback("Your answer is wrong. Try again!", "correctness")
LEAKY = Feedback("it is 42", "judge", leak="answer: 42")


def turn(said, feedback=HINT, stop=None, **more):
    """An attempt; right if it says 42, without an answer if it says nothing, ungraded if it stops
    so.
    """
    grade = Grade(correct=said == "42", format_ok=bool(said), parsed=said or None)
    if stop == "ungraded":
        grade = Grade(correct=False, format_ok=True)
    feedback = None if stop and stop != "prompt_too_long" else feedback
    attempt = Attempt(
        (1,), (2,), None, more.pop("text", f"so {said}"), ended=more.pop("ended", True)
    )
    return Turn(attempt, more.pop("grade", grade), float(said == "42"), feedback, stop, **more)


def acts(text, observation="", kind="ok", **arguments):
    """A step that calls `do` with these arguments; without any it is an answer."""
    actions = (Action(text, "do", arguments),) if arguments else ()
    results = (Step(observation, kind=kind),) if observation else ()
    return PlayedStep(text, actions, results, 0, 0)


def acted(said, *steps, end="answered", **more):
    """As `turn`, of an attempt with these steps."""
    trajectory = Trajectory(steps, end)
    made = turn(said, text=trajectory_text(trajectory), **more)
    return replace(made, attempt=replace(made.attempt, trajectory=trajectory))


def line(*answers, stop="horizon", feedback=HINT):
    last = len(answers) - 1
    return tuple(
        turn(said, feedback, stop=stop if k == last else None) for k, said in enumerate(answers)
    )


def write(
    folder,
    episodes,
    step=1,
    validate=False,
    env="sums",
    question="What is 6 times 7?",
    horizon=None,
    session_id=0,
    source="",
):
    """One file of episodes."""
    log = EpisodeLog(folder, "w")
    for i, turns in enumerate(episodes):
        episode = Episode(Problem(env, i, {}, "42"), session_id, tuple(turns), horizon=horizon)
        place = {"step": step, "validate": validate, "uid": f"u{step}-{i}", "source": source}
        log.append(episode, question=question, **place)
    return folder


def records(folder, episodes, **place):
    """The records that the log holds of the episodes."""
    return read_episodes(write(folder, episodes, **place))


def row(role, turn_number, advantage, *text, context=(), masked=()):
    """A row as `runlog.rows` has it: one part and its tokens; `context`, `masked`: positions of
    such tokens.
    """
    n = len(text)
    numbers = {"advantage": advantage, "log_prob": -0.5, "gap": 0.25}
    part = {
        "role": role,
        "turn": turn_number,
        "tokens": n - len(context),
        "masked": len(masked) / n,
    } | numbers
    tokens = {
        "text": list(text),
        "role": [-1 if k in context else Role[role.upper()] for k in range(n)],
        "turn": [turn_number] * n,
        "masked": [int(k in masked) for k in range(n)],
        "advantage": [0.0 if k in context or k in masked else advantage for k in range(n)],
        "log_prob": [-0.5 - k for k in range(n)],
        "gap": [0.25 * k for k in range(n)],
    }
    return {"parts": [part], "tokens": tokens}


def with_rows(record, *rows):
    """Put the rows into the record; their tokens."""
    record["rows"] = list(rows)
    return [own.get("tokens") for own in rows]


HOSTILE = [
    "<script>window.hacked = 1</script>",
    "</script><img src=x onerror='window.hacked = 1'>",
    "<!-- <script>",
    "nul \x00 bell \x07 escape \x1b[31m",
    "\u202eevil\u202c \u2066x",
    "שלום עולם, 42",
    "😀 漢字 é \u2028 \u2029 \ufffd",
    "{{data}} {{script}} \\1 \\g<0>",
    "&lt;b&gt; &amp;",
    "x" * 100_000,
]
