"""How the released code makes text of critiques, defects included (github.com/lili-chen/rltf at
22ddfd7d).

For comparing with it only: training models feedback with the templates `prompts/critic/*.j2`, from
what was said, not from a rendered prompt that is cut up again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MARKER, END = "Expert Critique:", "Instructions:"
CUE = "Critique: "
BEGIN, END_OF_TURN = "<|begin_of_text|>", "<|eot_id|>"
END_TOKENS = ("<|im_end|>", "</s>", "<|endoftext|>")


def header(role: str) -> str:
    """Llama 3's header of a message."""
    return f"<|start_header_id|>{role}<|end_header_id|>\n\n"


@dataclass(frozen=True)
class ReleaseExample:
    """One example of its mode `feedback_modeling`: [user: instruction + before + cue, assistant:
    answer].
    """

    before: str
    """The rendered revise prompt up to its critique, special tokens and the sentence that asks for
    a revision included: the splitter looks for another wording of that sentence."""
    answer: str
    """What is to be predicted."""

    @property
    def target(self) -> str:
        """The text of weight 1."""
        return self.answer + END_OF_TURN

    @property
    def beginning(self) -> str:
        """What stands before the instruction, a sentence of the release that is not repeated
        here.
        """
        return BEGIN + header("user")

    @property
    def ending(self) -> str:
        """What stands behind `before`."""
        return CUE + END_OF_TURN + header("assistant") + self.target


def release_example(prompt: str) -> ReleaseExample:
    """Cut up a rendered revise prompt.

    Cut at the *first* marker, which may stand in the attempt that the prompt quotes, and at the
    first "Instructions:" behind it, which may stand in the critique.

    Args:
        prompt: the decoded prompt of a later turn, special tokens included.

    Raises:
        ValueError: no marker; so for every environment whose revise prompt does not quote the
            attempt.

    >>> release_example("Question: q\\n\\nExpert Critique: c\\n\\nInstructions:\\n- i")
    ReleaseExample(before='Question: q\\n\\n', answer='c')
    """
    before, marker, rest = prompt.partition(MARKER)
    if not marker:
        raise ValueError(f"no {MARKER!r} in the prompt")
    return ReleaseExample(before, rest.partition(END)[0].strip())


def release_examples(prompts: Sequence[str]) -> list[ReleaseExample]:
    """Of one episode: an example per prompt but the first; the last answer and early-stopped
    episodes have none.
    """
    return [release_example(prompt) for prompt in prompts[1:]]


def release_critique(judge_output: str, *, last_line_only: bool) -> str:
    """What the release takes for the critique in a judge's output.

    Args:
        judge_output: decoded.
        last_line_only: as for Knights and Knaves, where the last line overwrites what was found; a
            critique of one line keeps its "Critique:", of a longer one the last line is left.

    >>> release_critique("Thinking: t\\nCritique: a\\nb<|im_end|>", last_line_only=False)
    'a\\nb'
    """
    text = judge_output
    for token in END_TOKENS:
        text = text.replace(token, "")
    text = text.strip()
    if last_line_only or "Critique:" not in text:
        return text.split("\n")[-1].strip()
    return text.rpartition("Critique:")[2].strip()
