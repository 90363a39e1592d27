"""Runs the command line in processes that can be killed: torch is imported once, then each command is a fork.

A line of JSON on stdin starts a command: {"job": number, "argv": […], "out": file, "err": file} and any of the keys of
LIMITS. "job process-id" comes back as a line, and when it has ended, "job exit-code" (minus the signal's number) as
another. The process leads a session, so that what it starts can be found and killed with it.
"""

import contextlib
import faulthandler
import importlib
import io
import json
import os
import resource
import signal
import sys
import traceback

LIMITS = {
    "die_at": None,  # the process ends on the spot at the n-th of the calls that make, force to disk or rename a file
    "limit": None,  # the kernel lets no file grow longer
    "memory": None,  # bytes that it may take beyond what it has
    "seconds": None,  # of computing, after which it is killed (SIGXCPU), as after WAIT times as many in all (SIGALRM)
    "cwd": None,
    "env": {},
    "stdin": os.devnull,
}
WAIT = 4  # other work on the machine is no fault of a command


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
        if argv[:1] == ["call"]:  # a module's `call`, for what no command does
            importlib.import_module(argv[1]).call(*argv[2:])
        else:
            cli.main()
    except SystemExit as done:
        if isinstance(done.code, str):
            print(done.code, file=sys.stderr)
        return done.code if isinstance(done.code, int) else int(done.code is not None)
    except BaseException:
        traceback.print_exc()
        return 99
    return 0


def start(job, started):
    """In a process of its own; never returns. Closing `started` says that it leads its session."""
    os.setsid()
    os.close(started)
    job = LIMITS | job
    places = ((0, job["stdin"], os.O_RDONLY), *((n, job[name], NEW) for n, name in ((1, "out"), (2, "err"))))
    for number, name, mode in places:
        os.dup2(os.open(name, mode), number)
    os.environ.update(job["env"])
    if job["cwd"]:
        os.chdir(job["cwd"])
    if job["die_at"]:
        die_at(job["die_at"])
    if job["limit"]:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (job["limit"], job["limit"]))
    if job["memory"]:
        with open("/proc/self/statm", encoding="ascii") as file:
            most = int(file.read().split()[0]) * resource.getpagesize() + job["memory"]
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    if job["seconds"]:
        faulthandler.enable()
        for number in (signal.SIGALRM, signal.SIGXCPU):  # says where it was, then ends it
            faulthandler.register(number, chain=True)
        resource.setrlimit(resource.RLIMIT_CPU, (job["seconds"], resource.RLIM_INFINITY))
        signal.setitimer(signal.ITIMER_REAL, job["seconds"] * WAIT)
    code = run(job["argv"])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC


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
    for name in sys.argv[1:]:
        importlib.import_module(name)
    warm()
    print("ready", flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        leads, started = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(leads)
            start(job, started)
        os.close(started)
        os.read(leads, 1)  # until it leads a session
        os.close(leads)
        print(job["job"], child, flush=True)
        _, status = os.waitpid(child, 0)
        print(job["job"], os.waitstatus_to_exitcode(status), flush=True)
