"""Sample with checkpoints and be killed when so large a share of the draws is made.

`python -m tests.storage.killed FOLDER SHARE MOMENT`: at the first checkpoint after that, at a
moment of it ("before", "between" the files of it, "after", or "rename", in a half made file).
"""

import os
import signal
import sys
import warnings
from pathlib import Path

import mjhmc_numba as mj
from mjhmc_numba.storage import files
from mjhmc_numba.storage.checkpoint import ChainFiles
from tests.storage.runs import RUN, ridge

warnings.simplefilter("ignore")


def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def die_at(share, moment):
    save, write, total = ChainFiles.save, files.write, RUN["tune"] + RUN["draws"]

    def save_or_die(self, state, part):
        if self.chain == 1 and (state["warmup_made"] + state["made"]) >= share * total:
            if moment == "before":
                die()
            if moment == "between":
                files.write = lambda path, value: (
                    die() if path == self._state else write(path, value)
                )
            if moment == "rename":
                os.replace = die
            save(self, state, part)
            die()
        save(self, state, part)

    ChainFiles.save = save_or_die


if __name__ == "__main__":
    folder, share, moment = sys.argv[1:]
    die_at(float(share), moment)
    mj.sample(ridge, checkpoint=Path(folder), every=0, **RUN)
