"""Jobs: real trainings as processes of their own, started, stopped with their work saved, resumed, and found again."""

import json
import sys
import time
from pathlib import Path

import pytest

from recollect.core.errors import RecollectError
from recollect.studio.jobs import form, race_form
from recollect.studio.jobs.jobs import JobError, Jobs
from recollect.studio.records.places import open_roots
from recollect.studio.records.watch import Watch

TINY = {"width": "8", "layers": "1", "batch": "4", "log_every": "2", "eval_every": "20", "save_every": "20"}
TINY |= {"eval_rows": "8", "steps": "1000000"}


def wait_for(condition, seconds=120.0):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError("it did not happen")


def state_of(jobs, job):
    return jobs.describe(jobs.find(job.id))["state"]


def start(jobs, code, kind="train", **given):
    return jobs.start(kind, [sys.executable, "-c", code], shown="recollect …", title="test", **given)


@pytest.fixture
def jobs(tmp_path):
    made = Jobs(tmp_path)
    yield made
    made.close(stop=True)


def command(asked, folder):
    made = form.compose(asked, {}.get, folder, "runs")
    assert made.problems == []
    return made


@pytest.mark.slow
def test_a_training_is_started_stopped_and_resumed(jobs, tmp_path):
    asked = form.Training(task="recall", model="gru", values=TINY, out="mine")
    made = command(asked, tmp_path)
    words = [sys.executable, "-P", "-m", "recollect", *made.words]
    job = jobs.start("train", words, shown=made.shown, title="mine", out=made.out)
    watch = Watch(open_roots([tmp_path]), look=0, search=0)
    wait_for(lambda: [run for run in watch.runs() if run.step and run.step > 20 and run.state == "running"])
    assert state_of(jobs, job) == "running"
    again = Jobs(tmp_path)  # another studio over the same folder
    assert state_of(again, job) == "running"
    again.stop(job.id)
    wait_for(lambda: state_of(jobs, job) == "stopped")
    (run,) = watch.runs()
    assert run.state == "stopped"
    assert "saved; go on with --resume" in jobs.describe(jobs.find(job.id))["line"]
    words = ["train", "recall", "--resume", "--out", str(tmp_path / "mine"), "--steps", str(run.step + 20)]
    job = jobs.start("train", [*words_of(words)], shown="", title="mine", out=made.out)
    wait_for(lambda: state_of(jobs, job) == "finished")
    (run,) = watch.runs()
    assert run.state == "finished"


def words_of(words):
    return [sys.executable, "-P", "-m", "recollect", *words]


def test_the_line_of_an_error_is_kept(jobs):
    job = start(jobs, "import sys; print('begun'); sys.exit('recollect: data: expected a file, found none')")
    wait_for(lambda: state_of(jobs, job) == "failed")
    found = jobs.describe(jobs.find(job.id))
    assert (found["code"], found["error"]) == (1, "data: expected a file, found none")
    assert jobs.tail(job.id).splitlines()[0] == "begun"


def test_output_is_shown_as_a_terminal_would(jobs):
    job = start(jobs, r"print('a\rstep 1\rstep 2'); print('\x1b[1mbold\x1b[0m <script>')")
    wait_for(lambda: state_of(jobs, job) == "finished")
    assert jobs.tail(job.id) == "step 2\nbold <script>\n"


def test_jobs_are_limited_in_number_and_write_to_places_of_their_own(tmp_path):
    jobs = Jobs(tmp_path, most=2)
    try:
        first = start(jobs, "import time; time.sleep(60)", out="runs/a")
        with pytest.raises(JobError, match="expected a name that no running job writes to"):
            start(jobs, "pass", out="runs/a")
        start(jobs, "import time; time.sleep(60)", out="runs/b")
        with pytest.raises(JobError, match="expected fewer than 2 jobs that run, found 2"):
            start(jobs, "pass")
        jobs.stop(first.id)
        wait_for(lambda: state_of(jobs, first) != "stopping")
        start(jobs, "pass")
    finally:
        jobs.close(stop=True)


def test_a_job_that_does_not_stop_is_ended_the_second_time(jobs):
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"
    job = start(jobs, code)
    wait_for(lambda: jobs.tail(job.id))
    jobs.stop(job.id)
    assert state_of(jobs, job) == "stopping"
    jobs.stop(job.id)
    wait_for(lambda: state_of(jobs, job) not in ("stopping", "running"))
    with pytest.raises(JobError, match="which has ended"):
        jobs.stop(job.id)
    with pytest.raises(JobError, match="expected one of this studio"):
        jobs.stop("../x")


@pytest.mark.parametrize("stop", [False, True])
def test_at_the_end_of_the_studio_jobs_go_on_or_are_stopped(tmp_path, stop):
    jobs = Jobs(tmp_path)
    job = start(jobs, "import time; print(1, flush=True); time.sleep(60)")
    wait_for(lambda: jobs.tail(job.id))
    jobs.close(stop=stop)
    later = Jobs(tmp_path)
    assert state_of(later, job) == ("stopped" if stop else "running")
    if not stop:
        later.stop(job.id)
    wait_for(lambda: state_of(later, job) == "stopped")


def test_files_of_jobs_that_are_none_are_passed_over(jobs, tmp_path):
    for name, text in (("x", "{"), ("y", "[]"), ("z", '{"id": "other"}')):
        place = tmp_path / ".studio" / "jobs" / name
        place.mkdir(parents=True)
        (place / "job.json").write_text(text)
    assert jobs.list_jobs() == []
    job = start(jobs, "pass")
    wait_for(lambda: state_of(jobs, job) == "finished")
    assert [found["id"] for found in jobs.list_jobs()] == [job.id]


def test_without_a_folder_nothing_is_started():
    with pytest.raises(JobError, match="expected a folder to write to"):
        start(Jobs(None), "pass")


# Forms


def problems(**asked):
    return form.compose(
        form.Training(**asked), {"runs/book.txt": Path("/x/book.txt")}.get, Path("/none"), "runs"
    ).problems


@pytest.mark.parametrize(
    ("asked", "field", "words"),
    [
        ({"values": {"lr": "abc"}}, "lr", "expected a number"),
        ({"values": {"lr": "-1"}}, "lr", "expected lr above 0"),
        ({"values": {"dropout": "2"}}, "dropout", "expected a share"),
        ({"values": {"width": "0"}}, "width", "at least 1"),
        ({"values": {"optimizer": "adam"}}, "optimizer", "did you mean 'adamw'?"),
        ({"values": {"tokenizer": "charss"}}, "tokenizer", "did you mean 'chars'?"),
        ({"more": ["dropot=0.1"]}, "more", "did you mean 'dropout'?"),
        ({"more": ["dropout"]}, "more", "expected key=value"),
        ({"model": "lsmt"}, "model", "did you mean 'lstm'?"),
        ({"params": "1x"}, "params", "expected a number"),
        ({"values": {"data": "/etc/passwd"}}, "data", "expected a known set, or a file in the folders"),
        ({"values": {"data": "../../x"}}, "data", "expected a known set"),
        ({"values": {"data": "a/../../x"}}, "data", "expected a known set"),
        ({"values": {"data": "~/x"}}, "data", "expected a known set"),
        ({"values": {"data": "C:\\x"}}, "data", "expected a known set"),
        ({"more": ["valid=/etc/passwd"]}, "valid", "expected a known set"),
        ({"values": {"encoding": "/dev/zero"}}, "encoding", "expected a known set"),
        ({"out": "../x"}, "out", "expected a name of letters"),
        ({"out": ".hidden"}, "out", "expected a name of letters"),
        ({"out": "x" * 200}, "out", "expected a name of letters"),
        ({"values": {"data": "\0"}}, "data", "that can be printed"),
        ({"values": {"data": "x" * 9_999}}, "data", "at most 2,000 characters"),
    ],
)
def test_what_the_command_would_refuse_is_said_at_its_field(asked, field, words):
    found = problems(task="text", **asked)
    assert [name for name, _ in found] == [field]
    assert words in found[0][1]


def test_huge_forms_are_refused():
    with pytest.raises(RecollectError, match="at most 200 fields"):
        problems(task="text", values={f"a{i}": "1" for i in range(1_000)})
    with pytest.raises(RecollectError, match="at most 200 fields"):
        race_form.compose(race_form.Racing(models=["lstm"] * 1_000), {}.get, Path("/none"), "runs")


def test_a_form_becomes_the_command_that_one_would_type(tmp_path):
    values = {
        "data": "runs/book.txt, tinyshakespeare",
        "lr": "3e-3",
        "dropout": "0.1",
        "vocab": "1k",
        "letters": "true",
    }
    asked = form.Training(task="text", model="LSTM", params="10k", values=values, more=["tie=false"], out="mine")
    made = form.compose(asked, {"runs/book.txt": Path("/x/a book.txt")}.get, tmp_path, "runs")
    assert made.problems == []
    assert made.out == "runs/mine"
    assert made.shown == (
        "recollect train text --model lstm --data '/x/a book.txt' --data tinyshakespeare --lr 3e-3 --set dropout=0.1 "
        f"--vocab 1k --set letters=true --set tie=false --params 10k --out {tmp_path}/mine"
    )


def test_a_folder_that_is_there_is_not_written_over(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "book.txt").write_text("")
    (tmp_path / "linked").symlink_to(tmp_path / "elsewhere")
    for name in ("mine", "linked"):
        asked = form.Training(task="recall", out=name)
        (problem,) = form.compose(asked, {}.get, tmp_path, "runs").problems
        assert "expected a new folder" in problem[1]
    assert form.free_name("mine", tmp_path) == "mine-0"


def test_every_task_has_a_form_whose_defaults_can_be_started(tmp_path):
    for task in form.describe("recall")["tasks"]:
        described = form.describe(task)
        assert all(field["help"] for field in described["fields"]), task
        values = {field["name"]: field["default"] for field in described["fields"] if field["default"]}
        made = form.compose(form.Training(task=task, values=values), {}.get, tmp_path, "runs")
        assert made.problems == [], task


@pytest.mark.parametrize(
    ("asked", "field", "words"),
    [
        ({"task": "recall", "models": ["lsmt"]}, "models", "did you mean 'lstm'?"),
        ({"ladder": "stat"}, "ladder", "did you mean 'state'?"),
        ({"task": "recal"}, "task", "did you mean 'recall'?"),
        ({"task": "recall", "values": {"equal": "tokens"}}, "", "expected --budget with it"),
        ({"task": "text", "values": {"budget": "1e30"}}, "budget", "at most 1e+09 steps"),
        ({"task": "text", "values": {"jobs": "0"}}, "jobs", "at least 1"),
        ({"task": "text", "values": {"seeds": "x"}}, "seeds", "a whole number"),
        ({"task": "text", "values": {"data": "/etc"}}, "data", "expected a known set"),
        ({"task": "text", "values": {"tokenizer": "/etc"}}, "tokenizer", "expected no path"),
        ({"task": "text", "values": {"height": "1"}}, "height", "expected a field of a race"),
        ({"task": "text", "more": ["dropot=1"]}, "more", "did you mean 'dropout'?"),
        ({"task": "text", "more": ["valid=/etc"]}, "more", "expected no path"),
        ({"task": "text", "out": "a/b"}, "out", "expected a name of letters"),
    ],
)
def test_a_race_is_checked_before_it_runs(tmp_path, asked, field, words):
    found = race_form.compose(race_form.Racing(**asked), {}.get, tmp_path, "runs").problems
    assert found[0][0] == field
    assert words in found[0][1]


def test_a_race_becomes_its_command(tmp_path):
    asked = race_form.Racing(task="recall", models=["gru", "rnn"], values={"budget": "20", "seeds": "1", "jobs": "1"})
    made = race_form.compose(asked, {}.get, tmp_path, "runs")
    assert made.problems == []
    words = f"recollect race recall --models gru,rnn --budget 20 --seeds 1 --jobs 1 --out {tmp_path}/race-recall"
    assert made.shown == words
    assert json.dumps(race_form.describe())
