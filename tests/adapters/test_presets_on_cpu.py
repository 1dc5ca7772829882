"""Every method composes, is accepted, and is in the docs as it is."""

from pathlib import Path

import pytest

from rltf_verl.adapters.startup.checks import check_config
from rltf_verl.adapters.startup.presets import markdown, preset_table
from rltf_verl.types import Role
from tests.support import configs

DOCS = Path(__file__).parents[2] / "docs" / "methods.md"
OF_THE_ISSUE = {
    "grpo_single",
    "grpo",
    "sd",
    "sd_second_turn",
    "sd_ppo",
    "sd_cispo",
    "sd_reject",
    "fm",
    "fm_inline",
    "sd_fm",
    "sft",
    "raft",
    "self_critique",
}
RELEASED = ("grpo", "sd", "sd_second_turn", "sd_ppo", "sd_cispo", "sft", "fm")


@pytest.fixture(scope="module")
def presets():
    return configs.presets()


def test_the_methods_of_paper_and_release_are_there(presets):
    names = {preset.name for preset in presets}
    assert names >= OF_THE_ISSUE
    assert {f"release/{m}" for m in RELEASED} <= names


def test_each_is_accepted_by_the_start_up_checks(presets):
    for preset in presets:
        if "endpoint" in preset.config.rltf.feedback:
            preset.config.rltf.feedback.endpoint.update(
                base_url="http://127.0.0.1:8000/v1", model="m"
            )
        check_config(preset.config)


def test_the_table_in_the_docs_is_what_the_configs_say(presets):
    text = DOCS.read_text("utf-8")
    _, _, rest = text.partition("<!-- presets: rltf presets --markdown -->\n")
    assert rest, "the marker is gone"
    assert rest.partition("\n<!-- end of presets -->")[0] == markdown(preset_table(presets))


def test_a_table_names_what_differs_from_an_objectives_defaults(presets):
    lines = {line[0]: line for line in preset_table(presets)}
    header = lines["method"]
    assert lines["sd"][header.index("distill")] == "0.1"
    assert lines["sd_reject"][header.index("distill")] == "0.1, baseline=rejection"
    assert lines["grpo"][header.index("distill")] == ""
    assert lines["raft"][header.index("attempt")] == ""
    assert lines["grpo"][header.index("critique")] == "", "nobody criticises"
    assert len(header) >= len(Role) + 3


def test_the_releases_presets_have_its_adam(presets):
    """Its epsilon of 1e-8 goes with token sums; ours are divided by sessions x response budget."""
    release = [preset.config for preset in presets if preset.name.startswith("release/")]
    assert len(release) >= 7
    for config in release:
        sessions = config.data.train_batch_size * config.actor_rollout_ref.rollout.n
        eps = (
            config.actor_rollout_ref.actor.optim.override_optimizer_config.eps
            * sessions
            * config.data.max_response_length
        )
        assert eps == pytest.approx(1e-8, rel=1e-3)


def test_a_run_without_further_words_can_be_looked_at_and_resumed(presets):
    """verl's own defaults log to wandb, never validate again and never save."""
    for trainer in (preset.config.trainer for preset in presets):
        assert list(trainer.logger) == ["console", "file"]
        assert trainer.test_freq > 0
        assert trainer.save_freq > 0
        assert trainer.max_actor_ckpt_to_keep >= 1
