"""An adopted run as the script that `rltf adopt` prints, without secrets."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence

from rltf_verl.redaction import Secrets, looks_secret, secrets_here
from rltf_verl.tools.adopt.adoption import Adopted
from rltf_verl.tools.adopt.checked import REFUSED
from rltf_verl.tools.adopt.command import MODULE, Launch
from rltf_verl.tools.adopt.script import Word, literal

LONGEST = 2000
"""Characters of a comment."""


def script_of(adopted: Adopted, source: str, folder: str = "") -> str:
    """A script that bash runs; what changed, and why, stands in it as comments. The variable RUN
    names another program for the same words, as in `RUN="rltf plan" bash run_rltf.sh`.

    Args:
        adopted: the run.
        source: what was adopted.
        folder: where its paths start; empty for the folder of the caller.
    """
    launch, exports = adopted.launch, adopted.launch.exports
    words = [_word(word, launch) for word in adopted.overrides]
    groups = [word for word in words if _is_group(word)]
    first = [line for line in adopted.notes if line.startswith(REFUSED)]
    notes = [line for line in adopted.notes if line not in first]
    secrets = secrets_of(launch, adopted.overrides)
    return "\n".join(
        [
            "#!/usr/bin/env bash",
            f"# `rltf adopt` of {source}: it composes. Checked: {', '.join(adopted.checked)}.",
            *_comments("Fix first", first, secrets),
            *_comments("Changed", adopted.changes, secrets),
            *_comments("To know", notes, secrets),
            *_comments("Set by rltf, where you leave verl's default", adopted.presets, secrets),
            *([f"cd {shlex.quote(folder)} || exit"] if folder else []),
            *(f"unset {name}" for name in launch.unset),
            *(
                f"export {name}={_shell(name, word, launch, {name})}"
                for name, word in exports.items()
            ),
            f"${{RUN:-python3 -m {MODULE}}} --config-name=rltf {' '.join(groups)} \\",
            *(f"    {word} \\" for word in words if not _is_group(word)),
            '    "$@"',
        ]
    )


def secrets_of(launch: Launch, overrides: Iterable[str] = ()) -> Secrets:
    """Values of a run that no text about it may hold."""
    words = [override.partition("=") for override in (*launch.overrides, *overrides)]
    texts = [text for key, _, text in words if looks_secret(_name(key), text)]
    exported = [w.text for name, w in launch.exports.items() if looks_secret(name, w.text)]
    return secrets_here([*texts, *exported])


def _name(key: str) -> str:
    """The last part of a key, if it may name a secret: verl's own keys do not."""
    last = key.rpartition(".")[2]
    return last if key[:1] in "+~" or last.isupper() or last == key else ""


def _word(override: str, launch: Launch) -> str:
    """An override as bash reads it."""
    key, equals, text = override.partition("=")
    shell = launch.words.get(override, literal(override).shell)
    if not shell.startswith(f"{key}="):
        return shlex.quote(override)
    value = _shell(_name(key), Word(text, shell.removeprefix(f"{key}=")), launch)
    return f"{key}={value}" if value.startswith('"') else shlex.quote(override)


def _shell(name: str, word: Word, launch: Launch, own: Iterable[str] = ()) -> str:
    """A value as bash reads it: with the variables that another machine may set otherwise, and a
    variable in the place of a secret.
    """
    shell = word.shell
    # a variable that the printed script sets would have another value there
    if {*re.findall(r"\$\{(\w+)", shell)} & (launch.exports.keys() - own):
        shell = literal(word.text).shell
    if looks_secret(name, re.sub(r"\$\{\w+\}", "", shell)):
        variable = re.sub(r"\W", "_", name or "SECRET").upper()
        return f'"${{{variable}:?set it, no secret is printed}}"'
    return shlex.quote(word.text) if shell == literal(word.text).shell else f'"{shell}"'


def _is_group(word: str) -> bool:
    return word.startswith(("rltf/", "model_engine="))


def _comments(title: str, lines: Sequence[str], secrets: Secrets) -> Iterator[str]:
    if lines:
        yield f"# {title}:"
    for line in lines:
        yield f"#   {secrets.quote(line, LONGEST)}"
