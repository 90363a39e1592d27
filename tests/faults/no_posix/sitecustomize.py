"""Hides what Windows does not offer. Python imports this at its start, in every process with this folder on PYTHONPATH.

What torch itself uses by `sys.platform` (`os.register_at_fork`) has to stay.
"""

import multiprocessing
import multiprocessing.context
import os
import signal
import sys

MODULES = ("fcntl", "grp", "pwd", "resource", "termios")
OF_OS = ("fork", "forkpty", "getuid", "geteuid", "sched_getaffinity", "statvfs", "sysconf")
OF_SIGNAL = ("SIGKILL", "pthread_sigmask", "setitimer")


def hide() -> None:
    sys.modules.update(dict.fromkeys(MODULES))  # None: to import it is an ImportError
    for module, names in ((os, OF_OS), (signal, OF_SIGNAL)):
        for name in names:
            if hasattr(module, name):
                delattr(module, name)
    multiprocessing.context._default_context.get_all_start_methods = lambda: ["spawn"]
    multiprocessing.get_all_start_methods = lambda: ["spawn"]


hide()
