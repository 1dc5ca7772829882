"""`rltf parity FILE.json`: hold our rows, advantages and losses against numbers computed by the released code.

Goes through what training uses: `episode_to_rows`, `compute_targets`, `distill_loss`, `TOKEN_LOSSES`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from rltf_verl.algos.distill import distill_advantages
from rltf_verl.algos.losses import TOKEN_LOSSES
from rltf_verl.algos.pack import pack_rows, pad
from rltf_verl.algos.returns import center_by_group_and_turn, discounted_returns, group_turn_mean
from rltf_verl.algos.role_loss import distill_loss
from rltf_verl.algos.schedule import scheduled_weight
from rltf_verl.algos.targets import Reference, RowBatch, RowTargets, compute_targets, turn_table
from rltf_verl.episode.rows import episode_to_rows
from rltf_verl.types import Attempt, Episode, Feedback, Grade, Problem, Role, Row, Turn

Json = Mapping[str, Any]

# distillation mode of the release -> (weighted by rl_coef, log-prob floor, reference of the ratio)
MODES: dict[str, tuple[bool, bool, Reference]] = {
    "none": (False, False, "old"),
    "rl_reweight": (False, False, "old"),
    "rl_reweight_mask": (True, True, "old"),
    "rl_mask": (False, False, "sampler"),
}

PADDING_DEFECT = (
    "mended defect: with horizon > 2 the release reads the second-turn advantage of a session that stopped before its "
    "group's longest from the zero padding; here it is the advantage of the session's own last turn"
)


@dataclass
class Section:
    """Counts of one case, or of one other part of the file."""

    num_compared: int = 0
    num_different: int = 0
    num_mended: int = 0


@dataclass
class Report:
    """What was compared, and what differs."""

    sections: dict[str, Section] = field(default_factory=dict)
    differences: list[str] = field(default_factory=list)
    """One line per number that differs, or per list of another length."""
    mended: dict[str, int] = field(default_factory=dict)
    """Reason of a deliberate difference -> numbers that differ for it."""
    not_covered: dict[str, int] = field(default_factory=dict)

    @property
    def num_compared(self) -> int:
        """Numbers of the whole file that were compared."""
        return sum(section.num_compared for section in self.sections.values())

    def skip(self, what: str) -> None:
        """Count something of the file that this version has no counterpart for."""
        self.not_covered[what] = self.not_covered.get(what, 0) + 1


@dataclass
class _Check:
    """Compares numbers of one case within its tolerance and files what differs."""

    report: Report
    where: str
    abs_tol: float
    rel_tol: float

    def ids(self, what: str, ours: object, theirs: object) -> None:
        """Compare token ids: a tolerance relative to an id would let its neighbour pass."""
        _Check(self.report, self.where, 0.0, 0.0).close(what, ours, theirs)

    def close(self, what: str, ours: object, theirs: object, reason: str | None = None, abs_tol: float = 0.0) -> None:
        """Compare numbers or (nested) lists of them; `reason` excuses zeros of theirs, the defect's trace."""
        a, b = list(_leaves(ours)), list(_leaves(theirs))
        tol = max(abs_tol, self.abs_tol)
        places = range(len(a)) if len(a) == len(b) else []
        wrong = [i for i in places if not abs(a[i] - b[i]) <= tol + self.rel_tol * abs(b[i])]
        lines = [f"{what}{f'[{i}]' if len(a) > 1 else ''}: ours {a[i]:.9g}, theirs {b[i]:.9g}" for i in wrong]
        if len(a) != len(b):
            lines = [f"{what}: ours has {len(a)} numbers, theirs {len(b)}"]
            reason = None
        excused = reason is not None and not any(b[i] for i in wrong)
        self._file(lines, max(len(a), len(b)), reason if excused else None)

    def _file(self, lines: list[str], num_compared: int, reason: str | None) -> None:
        section = self.report.sections.setdefault(self.where.partition("[")[0], Section())
        section.num_compared += num_compared
        if reason is not None:
            section.num_mended += len(lines)
            if lines:
                self.report.mended[reason] = self.report.mended.get(reason, 0) + len(lines)
            return
        section.num_different += len(lines)
        self.report.differences += [f"{self.where}: {line}" for line in lines]


def run_parity(path: Path) -> Report:
    """Compare everything in the file.

    Args:
        path: JSON of the schema `meta`, `cases`, `rl_coef_schedule`, `env_checks`.

    Raises:
        ValueError: the file is not of that schema.
    """
    data = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(data, dict) or "cases" not in data:
        raise ValueError(f"{path}: no `cases` in it; expected a parity file with meta, cases, rl_coef_schedule")
    tolerance = data.get("meta", {}).get("tolerance", {"abs": 2e-6, "rel": 1e-5, "loss_sum_abs": 2e-5})
    report = Report()
    for case in data["cases"]:
        _compare_case(case, _Check(report, case["name"], tolerance["abs"], tolerance["rel"]), tolerance["loss_sum_abs"])
    for i, item in enumerate(data.get("rl_coef_schedule", [])):
        check = _Check(report, f"rl_coef_schedule[{i}]", tolerance["abs"], tolerance["rel"])
        check.close("weight", _schedule(item), item["expected"])
    for key in ("env_checks", "feedback_modeling", "dataset_fingerprints"):
        if key in data:
            report.skip(key)
    return report


def _schedule(item: Json) -> float:
    coef = tuple(item["rl_coef"]) if isinstance(item["rl_coef"], list) else item["rl_coef"]
    start = item["start_batch"] if item["relative_schedule"] else 0
    return scheduled_weight(coef, item["current_batch"], item["total_batches"], start)


@dataclass(frozen=True)
class _Case:
    """One case as our own objects: episodes, their rows with distillation, and the perturbed policy's log-probs."""

    rows: list[Row]
    session: list[int]
    group: list[int]
    index: list[tuple[int, int]]
    old: list[list[float]]
    new: list[list[float]]


def _compare_case(case: Json, check: _Check, loss_tol: float) -> None:
    loaded = _load(case)
    batch = pack_rows(loaded.rows, loaded.session, loaded.group, loaded.old)
    _compare_tables(case, batch, loaded, check)
    for key, expected in case["expected"]["modes"].items():
        mode, _, baseline = key.partition("/")
        if mode not in MODES:
            check.report.skip(f"mode {mode}")
            continue
        _compare_mode(case, batch, loaded, mode, baseline or "first_turn", expected, check, loss_tol)


def _load(case: Json) -> _Case:
    out = _Case([], [], [], [], [], [])
    for g, group in enumerate(case["groups"]):
        for i, session in enumerate(group["sessions"]):
            episode = _episode(session)
            for row in episode_to_rows(episode, distill=True):
                out.rows.append(row)
                out.session.append(len(out.group))
                out.old.append(session["student_logprobs"] if row.role is Role.DISTILL else list(row.log_probs or ()))
                out.new.append(_new_log_probs(row, session))
            out.group.append(g)
            out.index.append((g, i))
    return out


def _episode(session: Json) -> Episode:
    turns: list[Turn] = []
    for turn in session["turns"]:
        if "critique_response_ids" in turn:
            critique = _attempt(turn, "critique_")
            feedback = Feedback(text="", provider="policy", attempt=critique)
            previous = turns[-1]
            turns[-1] = Turn(previous.attempt, previous.grade, previous.reward, feedback)
        turns.append(Turn(_attempt(turn, ""), Grade(bool(turn["correct"]), True), float(turn["reward"])))
    return Episode(Problem("parity", 0, {}, ""), 0, tuple(turns), "horizon")


def _attempt(turn: Json, prefix: str) -> Attempt:
    prompt, response = tuple(turn[f"{prefix}prompt_ids"]), tuple(turn[f"{prefix}response_ids"])
    return Attempt(prompt, response, tuple(turn[f"{prefix}logprobs"]), text="", ended=True)


def _new_log_probs(row: Row, session: Json) -> list[float]:
    """The perturbed policy's log-probs of a row's tokens, 0 on masked context."""
    if row.role is Role.DISTILL:
        return list(session["new_student_logprobs"])
    key = "new_critique_logprobs" if row.role is Role.CRITIQUE else "new_logprobs"
    new: list[float] = [0.0] * len(row.mask)
    for k in sorted({t for t, m in zip(row.turn, row.mask, strict=True) if m}):
        places = [j for j, (t, m) in enumerate(zip(row.turn, row.mask, strict=True)) if m and t == k]
        for j, value in zip(places, session["turns"][k][key], strict=True):
            new[j] = value
    return new


def _compare_tables(case: Json, batch: RowBatch, loaded: _Case, check: _Check) -> None:
    expected, table = case["expected"], turn_table(batch)
    returns = discounted_returns(table.rewards, table.valid, case["config"]["gamma"])
    advantages = center_by_group_and_turn(returns, table.valid, table.group)
    first_turn = group_turn_mean(table.rewards[:, :1], table.valid[:, :1], table.group).squeeze(1)
    for s, (g, i) in enumerate(loaded.index):
        theirs = expected["returns"][g][i]
        played = [k for k, value in enumerate(theirs) if value is not None]
        check.close(f"returns {g}/{i}", returns[s, : len(played)].tolist(), [theirs[k] for k in played])
        check.close(
            f"advantages {g}/{i}", advantages[s, : len(played)].tolist(), expected["advantages"][g][i][: len(played)]
        )
        check.close(f"first_turn_baseline {g}/{i}", float(first_turn[s]), expected["first_turn_baseline"][g])
    for baseline, by_session in expected["sd_base_advantage"].items():
        ours = distill_advantages(table.rewards, returns, table.valid, table.group, baseline)
        for s, (g, i) in enumerate(loaded.index):
            if f"{g}/{i}" in by_session:
                reason = _padding_reason(table.valid, batch.group, s, baseline)
                check.close(f"sd_base_advantage {baseline} {g}/{i}", float(ours[s]), by_session[f"{g}/{i}"], reason)
    if "advantages_std_normalized" in expected:
        check.report.skip("advantages_std_normalized")


def _padding_reason(valid: torch.Tensor, group: torch.Tensor, session: int, baseline: str) -> str | None:
    """The mended defect, if it applies to this session."""
    num_turns = valid.long().sum(dim=1)
    longest = int(num_turns[group == group[session]].max())
    return PADDING_DEFECT if baseline == "second_turn" and int(num_turns[session]) < longest else None


def _compare_mode(
    case: Json, batch: RowBatch, loaded: _Case, mode: str, baseline: Any, expected: Json, check: _Check, loss_tol: float
) -> None:
    weighted, floored, reference = MODES[mode]
    config, name = case["config"], f"{mode}/{baseline}"
    targets = compute_targets(
        batch, gamma=config["gamma"], distill_weight=config["rl_coef"] if weighted else 1.0, baseline=baseline,
        reference=reference, log_prob_floor=config["logprob_threshold"] if floored else None,
    )  # fmt: skip
    attempts = [n for n, row in enumerate(loaded.rows) if row.role is not Role.DISTILL]
    distilled = [] if mode == "none" else [n for n, row in enumerate(loaded.rows) if row.role is Role.DISTILL]
    order = [*attempts, *distilled]  # the release appends all distillation rows after all others
    check.close(f"{name} num_rl", len(attempts), expected["num_rl"])
    check.close(f"{name} num_distill", len(distilled), expected["num_distill"])
    check.close(f"{name} rows", len(order), len(expected["rows"]))
    table = turn_table(batch)
    reasons = [
        _padding_reason(table.valid, batch.group, loaded.session[n], baseline) if n in distilled else None
        for n in order
    ]
    for n, theirs, reason in zip(order, expected["rows"], reasons, strict=False):
        _compare_row(n, theirs, batch, targets, loaded, check, name, reason)
    for key, loss in expected["losses"].items():
        _compare_loss(key, loss, order, reasons, reference, batch, targets, loaded, config, check, name, loss_tol)


def _compare_row(
    n: int,
    theirs: Json,
    batch: RowBatch,
    targets: RowTargets,
    loaded: _Case,
    check: _Check,
    name: str,
    reason: str | None,
) -> None:
    """One row as the release's datum: x ⊕ y shifted by one, per-token values on y."""
    row, length = loaded.rows[n], len(loaded.rows[n].response_ids)
    where = f"{name} row {theirs['group']}/{theirs['session']}{' distill' if theirs['is_distillation'] else ''}"
    sequence = [*row.prompt_ids, *row.response_ids]
    check.close(f"{where} group, session", loaded.index[loaded.session[n]], [theirs["group"], theirs["session"]])
    check.ids(f"{where} input_ids", sequence[:-1], theirs["input_ids"])
    check.ids(f"{where} target_ids", sequence[1:], theirs["target_ids"])
    mask = batch.mask[n, :length]
    old, advantages = targets.ref_log_probs[n, :length] * mask, targets.advantages[n, :length]
    zeros = [0.0] * (len(row.prompt_ids) - 1)
    check.close(f"{where} mask", [*zeros, *mask.float().tolist()], theirs["mask"])
    check.close(f"{where} old_logprobs", [*zeros, *old.tolist()], theirs["old_logprobs"])
    check.close(f"{where} advantages", [*zeros, *advantages.tolist()], theirs["advantages"], reason)
    if theirs.get("mask_fraction") is not None:
        share = float(targets.floor_masked[n, :length].float().mean())
        check.close(f"{where} mask_fraction", share, theirs["mask_fraction"])


def _compare_loss(
    key: str, theirs: Json, order: list[int], reasons: list[str | None], reference: Reference, batch: RowBatch,
    targets: RowTargets, loaded: _Case, config: Json, check: _Check, name: str, loss_tol: float,
) -> None:  # fmt: skip
    loss_fn, _, policy = key.partition("/")
    # On-policy, the release sets every row's new log-probs to the sampler's at that row's own context.
    log_prob = pad(loaded.new if policy == "off_policy" else loaded.old, torch.float64).requires_grad_()
    keep = torch.zeros(len(loaded.rows), 1, dtype=torch.bool)
    keep[order] = True
    mask, distill = batch.mask & keep, batch.has_role(Role.DISTILL).unsqueeze(1)
    ref, advantages = targets.ref_log_probs.double(), targets.advantages.double()
    low, high = config["clip_low"], config["clip_high"]
    mended = torch.zeros_like(keep)
    mended[[n for n, reason in zip(order, reasons, strict=True) if reason]] = True
    attempt = (TOKEN_LOSSES[loss_fn](log_prob, ref, advantages, low, high) * (mask & ~distill)).sum()
    all_rows, unmended = (
        attempt + distill_loss(
            log_prob, ref, advantages, rows, reference=reference, loss=loss_fn, clip_low=low, clip_high=high
        )
        for rows in (mask & distill, mask & distill & ~mended)
    )  # fmt: skip
    (grad,) = torch.autograd.grad(all_rows, log_prob)
    # Rows that the mended defect gives advantage 0 add nothing to the release's sum.
    check.close(f"{name} {key} loss_sum", unmended.item(), theirs["loss_sum"], abs_tol=loss_tol)
    check.close(f"{name} {key} rows with a gradient", len(order), len(theirs["grad_wrt_new_logprob"]))
    for n, row_grad, reason in zip(order, theirs["grad_wrt_new_logprob"], reasons, strict=False):
        check.close(f"{name} {key} grad of row {n}", grad[n][batch.mask[n]].tolist(), row_grad, reason)


def _leaves(value: object) -> Iterator[float]:
    if isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item)
    else:
        yield float(value)  # type: ignore[arg-type]  # JSON numbers and bools
