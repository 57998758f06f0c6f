"""What tests call in other processes; it imports nothing that takes long."""

import os
import time


def square_or_die(k, folder, deaths):
    """k**2; call 3 ends its process the first `deaths` times, which it notes in the folder."""
    if k == 3 and len(os.listdir(folder)) < deaths:
        (folder / str(time.monotonic_ns())).touch()
        os._exit(1)
    return k**2
