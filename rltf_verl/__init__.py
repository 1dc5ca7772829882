"""Reinforcement Learning from Text Feedback for unmodified verl. Importing this package costs
nothing.
"""

import sys

__version__ = "0.2.0"


class _Moved:
    """Is asked last, for what nobody finds: modules, and names that a package does not have."""

    @staticmethod
    def find_spec(path: str, *_: object) -> None:
        """Raises ModuleNotFoundError with the line of `moved`.

        It has no `name`: Python drops an error about the very name that is imported from a package.
        """
        if path.startswith("rltf_verl."):
            from rltf_verl.moved import line_of

            if line := line_of(path):
                raise ModuleNotFoundError(line)


sys.meta_path.append(_Moved)
