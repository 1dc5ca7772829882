"""An option that an environment cannot have is one line that names its config key."""

from __future__ import annotations

from typing import Any

import pytest

from rltf_verl.envs import env_names, make_env


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "binary_matrx",
            {},
            r"rltf\.env\.name='binary_matrx'.*binary_matrix.*Did you mean 'binary_matrix'",
        ),
        (
            "binary_matrix",
            {"nmax": 4},
            r"rltf\.env\.nmax=4: binary_matrix has no option 'nmax'; .*mean 'n_max'",
        ),
        ("binary_matrix", {"mode": "strikt"}, r"rltf\.env\.mode='strikt'.*Did you mean 'strict'"),
        ("binary_matrix", {"style": 3}, r"rltf\.env\.style=3.*compact"),
        (
            "binary_matrix",
            {"style": "compact", "mode": "official"},
            r"rltf\.env\.style=compact.*mode=strict",
        ),
        ("binary_matrix", {"n_min": 1}, r"rltf\.env\.n_min=1: must be in \[2, 100\]"),
        (
            "binary_matrix",
            {"n_min": 4, "n_max": 3},
            r"rltf\.env\.n_max=3: must be at least rltf\.env\.n_min=4",
        ),
        ("binary_matrix", {"n_max": "5"}, r"rltf\.env\.n_max='5': must be a whole number"),
        ("knights_knaves", {"mode": "strikt"}, r"rltf\.env\.mode='strikt'.*Did you mean 'strict'"),
        ("knights_knaves", {"style": "tiny"}, r"rltf\.env\.style='tiny'"),
        ("knights_knaves", {"n_people": 1}, r"rltf\.env\.n_people=1: must be in \[2, 10\]"),
        ("knights_knaves", {"n_people": "5"}, r"rltf\.env\.n_people='5': must be a whole number"),
        ("knights_knaves", {"depth": 1}, r"rltf\.env\.depth=1: must be in \[2, 9\]"),
        ("knights_knaves", {"width": 4, "n_people": 2}, r"rltf\.env\.width=4: must be in \[2, 3\]"),
        (
            "knights_knaves",
            {"mode": "official", "style": "compact"},
            r"rltf\.env\.style='compact' .*rltf\.env\.mode='official'",
        ),
        (
            "knights_knaves",
            {"people": 3},
            r"rltf\.env\.people=3: knights_knaves has no option 'people'",
        ),
        ("shortest_path", {"mode": "strikt"}, r"rltf\.env\.mode='strikt'.*Did you mean 'strict'"),
        ("shortest_path", {"style": "tiny"}, r"rltf\.env\.style='tiny'"),
        ("shortest_path", {"rows_min": 0}, r"rltf\.env\.rows_min=0: must be in \[1, 100\]"),
        (
            "shortest_path",
            {"rows_min": 7},
            r"rltf\.env\.rows_max=6: must be at least rltf\.env\.rows_min=7",
        ),
        ("shortest_path", {"cols_max": 5.5}, r"rltf\.env\.cols_max=5\.5: must be a whole number"),
        ("shortest_path", {"cols_min": 1}, r"rltf\.env\.cols_min=1: must be in \[2, 100\]"),
        ("shortest_path", {"p_blocked": 1}, r"rltf\.env\.p_blocked=1: must be in \[0, 1\)"),
        ("shortest_path", {"p_blocked": float("nan")}, r"rltf\.env\.p_blocked=nan"),
        (
            "shortest_path",
            {"infeasible_share": 1.5},
            r"rltf\.env\.infeasible_share=1\.5: must be in \[0, 1\]",
        ),
        ("shortest_path", {"rows": 3}, r"rltf\.env\.rows=3: shortest_path has no option 'rows'"),
        ("writing", {"low": 5, "high": 5}, r"rltf\.env\.high=5 must be above"),
        ("writing", {"threshold": 11}, r"rltf\.env\.threshold=11"),
        (
            "writing",
            {"judges": [{"endpoint": {"base_url": "x", "model": "m"}}]},
            r"rltf\.env\.judges\[0\]\.endpoint\.base_url='x'",
        ),
        ("code", {"sandbox": "docker"}, "rltf.env.sandbox='docker'.*one of bubblewrap"),
        ("code", {"max_parallel": 0}, "rltf.env.max_parallel=0: must be"),
        ("code", {"source": "codeforces"}, r"rltf\.env\.source='codeforces'"),
        ("code", {"sandbox": "none"}, r"rltf\.env\.sandbox='none'"),
        ("code", {"time_s": 0}, r"rltf\.env\.time_s=0"),
        ("code", {"memory_mb": 1.5}, r"rltf\.env\.memory_mb=1.5"),
        ("code", {"num_public": -1}, r"rltf\.env\.num_public=-1"),
        ("code", {"max_private": 0}, r"rltf\.env\.max_private=0"),
        ("code", {"max_parallel": 0}, r"rltf\.env\.max_parallel=0"),
        ("code", {"tolerance": -1}, r"rltf\.env\.tolerance=-1"),
        ("code", {"partial": "yes"}, r"rltf\.env\.partial='yes'"),
        ("code", {"url": "http://x"}, r"rltf\.env\.url='http://x'"),
    ],
)
def test_bad_options_name_the_config_key(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_env(name, **options)


def test_every_environment_has_its_name() -> None:
    assert all(make_env(name).name == name for name in env_names())
