"""Files of training runs, made by hand."""

import json

ACC = "val-core/rltf/sums/acc/mean@4"


def step(seconds=3600.0, tokens=1000, cost=None, **more):
    """What verl logs of a trained step."""
    judge = {} if cost is None else {"rltf/feedback/judge/cost": cost}
    return {"timing_s/step": seconds, "perf/total_num_tokens": tokens, **judge, **more}


def evaluated(accuracy):
    """What verl logs of a validation."""
    return {ACC: accuracy, "val-aux/num_turns/mean": 2}


def write_metrics(path, records):
    """One process of verl's file logger: `records` is [(step, metrics)…]; trained steps get their
    number as in verl.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = []
    for number, metrics in records:
        trained = {"training/global_step": number} if "timing_s/step" in metrics else {}
        lines.append(json.dumps({"step": number, "data": metrics | trained}))
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def run(path, accuracies, every=1, **of_step):
    """A run that is validated at 0, `every`, 2 `every`, …, with these accuracies."""
    records = [(0, evaluated(accuracies[0]))]
    for number in range(1, every * (len(accuracies) - 1) + 1):
        validation = evaluated(accuracies[number // every]) if number % every == 0 else {}
        records.append((number, step(**of_step) | validation))
    return write_metrics(path, records)
