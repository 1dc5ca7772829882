"""A reward function that says what is wrong, and a dataset: `python euros.py` writes train.parquet
and test.parquet.
"""

import random


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    said = solution_str.strip()
    if said == ground_truth:
        return {"score": 1.0, "feedback": ""}
    if said.isdecimal():
        return {"score": 0.0, "feedback": f"{said} is not the sum. Add the two prices again."}
    return {"score": 0.0, "feedback": "Write the sum only: digits, no words and no currency."}


def row(bread, cheese):
    """A problem in verl's form."""
    question = f"Bread costs {bread} euros, cheese costs {cheese} euros. What do both cost?"
    return {
        "data_source": "euros",
        "prompt": [{"role": "user", "content": question}],
        "reward_model": {"ground_truth": str(bread + cheese)},
        "extra_info": {"bread": bread, "cheese": cheese},
    }


if __name__ == "__main__":
    import pandas  # not needed by a worker that grades

    prices = [(bread, cheese) for bread in range(1, 20) for cheese in range(1, 20)]
    random.Random(0).shuffle(prices)
    for name, some in (("train", prices[:256]), ("test", prices[-32:])):
        pandas.DataFrame(row(*each) for each in some).to_parquet(f"{name}.parquet")
        print(f"{name}.parquet: {len(some)} rows, e.g. {row(*some[0])['prompt'][0]['content']}")
