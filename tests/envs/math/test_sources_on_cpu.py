"""`math` reads its problems through `datasets`, here from local files with the columns of the real
ones.
"""

from pathlib import Path
from typing import Any

import datasets
import pytest

from rltf_verl.envs import make_env
from rltf_verl.envs.base import Splits
from rltf_verl.envs.math.sources import SUBJECTS

Rows = list[dict[str, Any]]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


def write(path: Path, rows: Rows) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = datasets.Dataset.from_list(rows)
    {".parquet": table.to_parquet, ".csv": table.to_csv}.get(path.suffix, table.to_json)(str(path))
    return str(path)


def questions(num: int, tag: str = "What is") -> Rows:
    return [{"problem": f"{tag} {i}+1?", "answer": str(i + 1)} for i in range(num)]


def aime2024(num: int) -> Rows:
    """The repository repeats its 30 problems; question and answer lie in verl's columns."""
    return [
        {
            "prompt": [{"role": "user", "content": f"Solve {i % 30}."}],
            "reward_model": {"ground_truth": str(i % 30), "style": "rule"},
        }
        for i in range(num)
    ]


def asked(splits: Splits) -> tuple[list[str], list[str]]:
    return [p.data["question"] for p in splits.train], [p.data["question"] for p in splits.test]


def build(num_train: int = 1000, num_test: int = 1000, seed: int = 0, **options: Any) -> Splits:
    return make_env("math", **options).build(seed, num_train, num_test)


SCHEMAS: dict[str, tuple[Rows, tuple[str, str, str]]] = {
    "dapo": ([{"prompt": "Q", "answer": "\\boxed{34}"}], ("Q", "34", "")),
    "deepmath": (
        [{"question": "Q", "final_answer": "7", "difficulty": 5.0, "r1_solution_1": "so"}],
        ("Q", "7", "so"),
    ),
    "deepscaler": ([{"problem": "Q", "answer": "7", "solution": "so"}], ("Q", "7", "so")),
    "polaris": ([{"problem": "Q", "answer": "7", "difficulty": "1/8"}], ("Q", "7", "")),
    "gsm8k": (
        [{"question": "Q", "answer": "2*500=1000\n#### 1,000"}],
        ("Q", "1000", "2*500=1000\n#### 1,000"),
    ),
}


@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.parametrize("ending", ["parquet", "jsonl"])
def test_columns_of_the_named_sources(name: str, ending: str, tmp_path: Path) -> None:
    rows, (question, answer, solution) = SCHEMAS[name]
    path = write(tmp_path / f"x.{ending}", rows)
    (problem,) = build(source=name, path=path, test_sets=[]).train
    assert problem.data == {
        "question": question,
        "subset": name,
        **({"solution": solution} if solution else {}),
    }
    assert problem.reference == answer
    env = make_env("math")
    assert env.grade(problem, f"\\boxed{{{answer}}}").correct
    assert (
        env.prompt(problem)
        == f"{question} Let's think step by step and output the final answer within \\boxed{{}}."
    )


def test_the_release_s_test_sets(tmp_path: Path) -> None:
    paths = {
        "math500": write(tmp_path / "math500" / "test.jsonl", questions(5, "Find")),
        "aime2024": write(tmp_path / "aime.parquet", aime2024(960)),
    }
    splits = build(
        source="polaris",
        path=write(tmp_path / "p.csv", questions(4)),
        test_paths=paths,
        num_test=500,
    )
    assert [p.data["subset"] for p in splits.test] == ["math500"] * 10 + ["aime2024"] * 120
    assert [p.index for p in splits.test] == list(range(130)), "each sample has its own seeds"
    assert asked(splits)[1][:4] == ["Find 0+1?", "Find 0+1?", "Find 1+1?", "Find 1+1?"]
    assert splits.test[-1].reference == "29"


def test_the_other_test_sets(tmp_path: Path) -> None:
    paths = {
        "aime2025": write(tmp_path / "a.jsonl", questions(2, "A")),
        "beyondaime": write(tmp_path / "b.jsonl", questions(2, "B")),
        "gsm8k": write(tmp_path / "g.jsonl", [{"question": "G", "answer": "#### 4"}]),
    }
    own = write(tmp_path / "mine.jsonl", [{"question": "M", "answer": 3}])
    splits = build(
        source="polaris",
        path=write(tmp_path / "p.jsonl", questions(1)),
        test_paths=paths,
        test_sets=[*paths, own],
    )
    assert [(p.data["subset"], p.reference) for p in splits.test] == [
        *[("aime2025", "1")] * 4,
        *[("aime2025", "2")] * 4,
        ("beyondaime", "1"),
        ("beyondaime", "2"),
        ("gsm8k", "4"),
        ("mine", "3"),
    ]


@pytest.mark.parametrize(("mode", "kept", "noted"), [("strict", 4, 1), ("official", 6, 0)])
def test_no_test_problem_is_trained_on(mode: str, kept: int, noted: int, tmp_path: Path) -> None:
    train = [
        *questions(3),
        {"problem": "find 0 + 1 ?", "answer": "1"},
        {"problem": "Find $1+1$?", "answer": "2"},
        {"problem": "Find 1-1?", "answer": "0"},
    ]
    test = write(tmp_path / "t.jsonl", questions(2, "Find"))
    splits = build(
        mode=mode,
        source="polaris",
        path=write(tmp_path / "p.jsonl", train),
        test_sets=["math500"],
        test_paths={"math500": test},
    )
    assert len(splits.train) == kept
    assert ["2 training problems" in note for note in splits.notes] == [True] * noted


def test_hendrycks_math_is_what_is_not_in_math500(tmp_path: Path) -> None:
    solved = {"solution": "so \\boxed{\\frac{1}{2}}.", "level": "Level 1"}
    names = [f"{subject}/{split}" for subject in SUBJECTS for split in ("train", "test")]
    for name in names:
        write(tmp_path / "m" / f"{name}.parquet", [{"problem": name, **solved}])
    test = write(tmp_path / "t.jsonl", [{"problem": "geometry/test", "answer": "1"}])
    for sets in (["math500"], []):
        options = {"test_sets": sets, "test_paths": {"math500": test}, "path": str(tmp_path / "m")}
        splits = build(mode="official", source="math", **options)
        assert sorted(asked(splits)[0]) == sorted({*names} - {"geometry/test"})
        assert {p.reference for p in splits.train} == {"\\frac{1}{2}"}
        assert len(splits.test) == 2 * len(sets)


def test_a_folder_with_a_card(tmp_path: Path) -> None:
    """As `hf download` leaves it: the configs stand in the card."""
    folder = tmp_path / "gsm8k"
    for config in ("main", "socratic"):
        for split in ("train", "test"):
            write(
                folder / config / f"{split}-00000-of-00001.parquet",
                [{"question": f"{config} {split}", "answer": "#### 1"}],
            )
    files = (
        "\n  data_files: [{{split: train, path: {0}/train-*}}, {{split: test, path: {0}/test-*}}]"
    )
    configs = [f"- config_name: {name}{files.format(name)}" for name in ("main", "socratic")]
    (folder / "README.md").write_text("\n".join(["---", "configs:", *configs, "---", ""]))
    splits = build(
        source="gsm8k", path=str(folder), test_sets=["gsm8k"], test_paths={"gsm8k": str(folder)}
    )
    assert asked(splits) == (["main train"], ["main test"])


def test_deepmath_keeps_its_last_500_and_hard_is_above_6(tmp_path: Path) -> None:
    rows = [
        {"question": f"Q{i}", "final_answer": "1", "difficulty": float(i % 10)} for i in range(520)
    ]
    path = write(tmp_path / "d.parquet", rows)
    assert sorted(asked(build(source="deepmath", path=path, test_sets=[]))[0]) == sorted(
        f"Q{i}" for i in range(20)
    )
    hard = build(source="deepmath_hard", path=path, test_sets=[])
    assert sorted(asked(hard)[0]) == sorted(f"Q{i}" for i in range(20) if i % 10 > 6)


def test_the_order_is_the_release_s(tmp_path: Path) -> None:
    path = write(tmp_path / "p.jsonl", questions(50))
    rows = datasets.Dataset.from_list(questions(50))
    for seed in (0, 7):
        splits = build(source="polaris", path=path, test_sets=[], seed=seed, num_train=9)
        assert asked(splits)[0] == rows.shuffle(seed=seed)["problem"][:9]


def test_a_file_of_one_s_own_holds_out_its_test_problems(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [{"q": f"Q{i}", "a": i} for i in range(10)]
    path = write(tmp_path / "own.jsonl", [*rows, {"q": None, "a": 3}])
    splits = build(source=path, question_field="q", answer_field="a", num_train=100, num_test=3)
    train, test = asked(splits)
    assert (len(train), len(test)) == (7, 3)
    assert f"{path}: left out, as q is null: 1 row" in caplog.text
    assert not set(train) & set(test)
    assert {p.data["subset"] for p in (*splits.train, *splits.test)} == {"own"}


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (None, {}, "rltf.env.source=polaris: cannot load .*no such file"),
        (
            [{"x": 1}],
            {},
            (
                "rltf.env.source=polaris: no row has a question and an answer; columns:"
                " x.*question_field"
            ),
        ),
        ([{"problem": "", "answer": ""}], {}, "no row has a question and an answer"),
        (
            [{"question": "Q", "final_answer": "1"}],
            {"source": "deepmath_hard"},
            "no usable column 'difficulty'",
        ),
    ],
)
def test_what_cannot_be_read_is_one_line(
    rows: Rows | None, options: dict, message: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "p.jsonl", rows) if rows else str(tmp_path / "none.jsonl")
    with pytest.raises(ValueError, match=message) as caught:
        build(**{"source": "polaris", "path": path, "test_sets": [], **options})
    assert "\n" not in str(caught.value)


def test_a_hub_that_is_off_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path)
    with pytest.raises(ValueError, match="HF_HUB_OFFLINE") as caught:
        build(1, 0, source="gsm8k")
    assert str(caught.value).startswith("rltf.env.source=gsm8k: cannot load openai/gsm8k")
    assert "\n" not in str(caught.value)
