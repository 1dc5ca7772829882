"""Data of the runs."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from recipes.demo.make_policy import examples, make_model, make_tokenizer, warm_up
from tests.e2e import runs


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The overrides that name 3x3 problems."""
    return runs.build_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="session")
def wide_policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's policy with wider heads, and less training: it follows feedback now and then."""
    folder, tokenizer = tmp_path_factory.mktemp("policy"), make_tokenizer()
    # Three heads of 32 dimensions: vLLM's attention on the CPU has no kernel for the demo's 24.
    model = make_model(len(tokenizer), seed=0, num_heads=3)
    warm_up(model, tokenizer, examples(0), 150, batch_size=32)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def one_thread() -> Iterator[None]:
    """A forward of the tiny policy gets 50 times slower when its threads fight with the runs of
    other tests.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
