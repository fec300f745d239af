"""In a pod: `kubectl exec` where a pod is a process, since there is no kubelet that kube-apiserver could ask.

A program of its own, standard library only: `python in_pod.py FOLDER WORD... exec KIND/NAME -- COMMAND...` runs the
command with the variables, volumes and addresses of the pod, of which FOLDER has one file.
"""

import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn


def main(words: Sequence[str]) -> NoReturn:
    """Become the command."""
    folder, asked = Path(words[0]), list(words[words.index("exec") + 1 :])
    (name,), command = (word.rpartition("/")[2] for word in asked[: asked.index("--")]), asked[asked.index("--") + 1 :]
    found = sorted(folder.glob(f"{name}-*.json"))
    if len(found) != 1:
        sys.exit(f"{len(found)} pods of {name} run, not 1")
    pod = json.loads(found[0].read_text())
    paths = "|".join(map(re.escape, sorted(pod["places"], key=len, reverse=True)))
    placed = [re.sub(rf"(?:{paths})(?![\w.-])", lambda one: str(pod["places"][one[0]]), word) for word in command]
    os.execvpe(placed[0], placed, pod["env"])  # noqa: S606 - as kubectl does


if __name__ == "__main__":
    main(sys.argv[1:])
