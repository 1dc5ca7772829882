"""A reward function that says what is wrong, and a dataset: `python euros.py` writes train.parquet
and test.parquet.
"""

import random

import pandas


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    said = solution_str.strip()
    if said == ground_truth:
        return {"score": 1.0, "feedback": ""}
    if said.isdecimal():
        return {"score": 0.0, "feedback": f"{said} is not the sum. Add the two prices again."}
    return {"score": 0.0, "feedback": "Write the sum only: digits, no words and no currency."}


def bill(draw):
    """A row in verl's form."""
    bread, cheese = draw.randrange(1, 10), draw.randrange(1, 10)
    question = f"Bread costs {bread} euros, cheese costs {cheese} euros. What do both cost?"
    return {
        "data_source": "euros",
        "prompt": [{"role": "user", "content": question}],
        "reward_model": {"ground_truth": str(bread + cheese)},
        "extra_info": {"bread": bread, "cheese": cheese},
    }


if __name__ == "__main__":
    for name, seed, size in (("train", 0, 256), ("test", 1, 32)):
        draw = random.Random(seed)
        rows = pandas.DataFrame(bill(draw) for _ in range(size))
        rows.to_parquet(f"{name}.parquet")
        print(f"{name}.parquet: {size} rows, e.g. {rows['prompt'][0][0]['content']}")
