"""Runs the command line in processes that can be killed: torch is imported once, then each command is a fork.

A line of JSON on stdin starts a command: {"argv": […], "out": file, "err": file, "die_at": n, "limit": bytes}. Its
process id comes back as a line, and when it has ended its exit code (minus the signal's number) as another. With
`die_at` the process ends on the spot at the n-th of the calls that make, force to disk or rename a file; with `limit`
the kernel lets no file grow longer.
"""

import contextlib
import io
import json
import os
import resource
import signal
import sys
import traceback


def die_at(count):
    """End the process, as a power cut would, at the `count`-th of the calls that make files last."""
    left = count

    def counted(call):
        def wrapped(*args, **kwargs):
            nonlocal left
            left -= 1
            if left == 0:
                os._exit(77)
            return call(*args, **kwargs)

        return wrapped

    os.fsync, os.replace, os.fdopen = counted(os.fsync), counted(os.replace), counted(os.fdopen)


def run(argv):
    """The exit code of a command; 99 for what ends in a traceback."""
    from recollect import cli

    sys.argv = ["recollect", *argv]
    try:
        cli.main()
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else int(done.code is not None)
    except BaseException:
        traceback.print_exc()
        return 99
    return 0


def start(job):
    """In a process of its own; never returns."""
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(job[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    if job["die_at"]:
        die_at(job["die_at"])
    if job["limit"]:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (job["limit"], job["limit"]))
    code = run(job["argv"])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def warm():
    """Whatever is imported at its first use, imported before the forks."""
    import safetensors.torch  # noqa: F401
    import torch

    import recollect.tasks.text.task  # noqa: F401

    torch.set_num_threads(1)
    parameter = torch.nn.Parameter(torch.zeros(1))
    parameter.grad = torch.zeros(1)
    torch.optim.AdamW([parameter]).step()
    with contextlib.redirect_stderr(io.StringIO()):
        run(["train", "nothing", "--width", "8", "--set", "a=b"])


if __name__ == "__main__":
    warm()
    print("ready", flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        child = os.fork()
        if child == 0:
            start(job)
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
