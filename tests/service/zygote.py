"""A process that has imported all that a server needs, and becomes one at once, as often as it is asked to.

To import takes seconds, and tests start and kill many servers. Each line on standard input is JSON: the arguments of
`pacbandits serve`, the environment, and the file that takes its output. It says the number of the new process.
"""

from __future__ import annotations

import json
import os
import signal
import sys


def main() -> None:
    # A server imports the first two when it creates an experiment.
    import numba  # noqa: F401
    import scipy.optimize  # noqa: F401
    import uvloop  # noqa: F401

    from pacbandits import cli
    from pacbandits.service import dashboard
    from pacbandits.service import server as serving

    assert dashboard, serving
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    print("ready", flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        child = os.fork()
        if child:
            print(child, flush=True)
            continue
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        output = os.open(asked["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        nothing = os.open(os.devnull, os.O_RDWR)
        for to, of in ((0, nothing), (1, output), (2, nothing)):
            os.dup2(of, to)
        os.environ.update(asked["environment"])
        sys.argv = ["pacbandits", "serve", *asked["arguments"]]
        try:
            cli.main()
        except SystemExit as ended:
            os._exit(int(ended.code or 0))
        os._exit(0)


if __name__ == "__main__":
    main()
