"""Routes of runs, races, starts, the lineage and the course: what they answer, and what they refuse."""

import json

import pytest
from tools import lineage as tool
from tools import studio_runs

from recollect.studio.app import Studio
from recollect.studio.documents import history
from recollect.studio.documents.markdown import split_page, to_html
from recollect.studio.limits import Limits
from serve.asgi import HOST, TOKEN, Client

from .folders import make_run

SECRET = "kept from everybody"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder of the studio beside one that is none of its."""
    root = tmp_path_factory.mktemp("routes")
    outside = make_run(root / "outside" / "secret")
    (root / "outside" / "secret.txt").write_text(SECRET)
    for name, rows in (("a", 40), ("b", 40)):
        make_run(root / "runs" / name, rows=rows, lr=1e-3 if name == "a" else 2e-3)
    make_run(root / "runs" / "<script>alert(1)<", rows=5)
    (root / "runs" / "book.txt").write_text("a text to read")
    (root / "runs" / "linked").symlink_to(outside)
    (root / "runs" / "linked.txt").symlink_to(root / "outside" / "secret.txt")
    return root / "runs"


@pytest.fixture(scope="module")
def client(place):
    made = Studio([place], [], Limits())
    yield Client(made.application(hosts=frozenset({HOST}), token=TOKEN))
    made.close()


def test_runs_of_the_folder_are_listed_and_no_others(client):
    found = client("GET", "/studio/runs/list").json()
    assert sorted(run["id"] for run in found["runs"]) == ["runs/<script>alert(1)<", "runs/a", "runs/b"]
    again = client("GET", f"/studio/runs/list?cursor={found['cursor']}").json()
    assert (again["runs"], again["all"]) == ([], False)


def test_a_chart_and_its_file(client):
    asked = {"runs": ["runs/a", "runs/b"], "x": "step", "y": "loss"}
    found = client("POST", "/studio/runs/chart", asked).json()
    assert [line["id"] for line in found["lines"]] == asked["runs"]
    drawn = client("POST", "/studio/runs/svg", asked)
    assert drawn.headers["content-type"].startswith("image/svg+xml")
    assert b"<script" not in drawn.body
    named = client("POST", "/studio/runs/svg", {"runs": ["runs/<script>alert(1)<"], "y": "loss"})
    assert b"<script" not in named.body
    differ = client("POST", "/studio/runs/compare", {"runs": asked["runs"]}).json()["differ"]
    assert [row["name"] for row in differ] == ["train.lr"]


OUTSIDE = [
    "../outside/secret", "runs/../../outside/secret", "/etc/passwd", "runs/linked", "runs/a/../../outside/secret", "",
    "runs\0", "runs/a/metrics.jsonl", "%2e%2e%2foutside",
]  # fmt: skip


@pytest.mark.parametrize("name", OUTSIDE)
def test_names_that_lead_out_of_the_folder_are_none(client, name):
    for path, body in (
        ("/studio/runs/chart", {"runs": [name]}),
        ("/studio/runs/compare", {"runs": [name]}),
        ("/studio/start/resume", {"id": name}),
    ):
        answer = client("POST", path, body)
        assert answer.status == 404, (path, answer.body)
        assert SECRET.encode() not in answer.body


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/studio/runs/chart", {"runs": ["runs/a"], "x": "height"}, 400),
        ("POST", "/studio/runs/chart", {"runs": ["runs/a"], "width": 10**9}, 400),
        ("POST", "/studio/runs/chart", {"runs": ["runs/a"] * 2_000}, 400),
        ("POST", "/studio/runs/chart", {"runs": "runs/a"}, 400),
        ("POST", "/studio/runs/chart", {"runs": [], "path": "/etc"}, 400),
        ("POST", "/studio/runs/chart", [], 400),
        ("POST", "/studio/runs/chart", b"{", 415),
        ("GET", "/studio/runs/chart", None, 405),
        ("POST", "/studio/runs/compare", {"runs": ["runs/a"] * 100}, 400),
        ("GET", "/studio/runs/list?cursor=" + "x" * 9_999, None, 400),
        ("GET", "/studio/races/page?race=../outside", None, 404),
        ("GET", "/studio/start/training?task=nothing", None, 400),
        ("GET", "/studio/start/training?task=text&model=nothing", None, 400),
        ("POST", "/studio/start/check", {}, 400),
        (
            "POST",
            "/studio/start/check",
            {"training": {"task": "text", "values": {str(n): "1" for n in range(999)}}},
            400,
        ),
        ("POST", "/studio/start/check", {"training": {"task": "text", "values": {"width": 8}}}, 400),
        ("POST", "/studio/start/run", {"training": {"task": "text", "values": {"data": "/etc/passwd"}}}, 400),
        ("POST", "/studio/start/run", {"training": {"task": "text", "out": "../x"}}, 400),
        ("POST", "/studio/start/run", {"training": {"task": "text", "out": "a"}}, 400),
        ("POST", "/studio/start/stop", {"id": "../../x"}, 400),
        ("GET", "/studio/start/output?id=../../../etc/passwd", None, 404),
        ("POST", "/studio/start/resume", {"id": "runs/a", "steps": 0}, 400),
        ("GET", "/studio/lineage/layer?layer=../x", None, 404),
        ("GET", "/studio/lineage/map?layer=rnn&width=abc", None, 200),
        ("GET", "/studio/course/chapter?chapter=../x", None, 404),
        ("GET", "/studio/course/figure/..%2f..%2fx.svg", None, 404),
        ("GET", "/studio/course/figure/nothing.svg", None, 404),
        ("POST", "/studio/course/run", {"chapter": 4, "section": "code", "part": 0}, 404),
        ("POST", "/studio/course/run", {"chapter": 99, "section": "code", "part": 1}, 404),
        ("POST", "/studio/course/run", {"chapter": 4, "section": "code", "part": 1, "text": "rm -rf"}, 400),
    ],
)
def test_odd_requests_are_refused(client, method, path, body, status):
    answer = client(method, path, body)
    assert answer.status == status, answer.body
    assert SECRET.encode() not in answer.body


def test_without_the_token_or_from_elsewhere_nothing_answers(client):
    for path in ("/studio/runs/list", "/studio/start/jobs", "/studio/course/chapters"):
        assert client("GET", path, headers={"authorization": None}).status == 401
        assert client("GET", path, headers={"host": "evil.example"}).status == 403
        assert client("GET", path, headers={"origin": "https://evil.example"}).status == 403


def test_files_that_may_be_read_are_listed_and_links_are_not(client, place):
    found = client("GET", "/studio/start/data").json()
    assert "runs/book.txt" in found["files"]
    assert not any("linked" in name or "outside" in name for name in found["files"])
    asked = {"training": {"task": "text", "model": "gru", "values": {"data": "runs/book.txt"}, "out": "new"}}
    checked = client("POST", "/studio/start/check", asked).json()
    assert checked["problems"] == []
    assert f"--data {place / 'book.txt'}" in checked["command"]
    asked["training"]["values"]["data"] = "runs/linked.txt"
    checked = client("POST", "/studio/start/check", asked).json()
    assert "linked.txt" in checked["command"]  # a name of nothing, in the empty folder that a job works in
    assert str(place) not in checked["command"].partition("--out")[0]


def test_forms_and_pages_are_in_the_language_of_the_reader(client):
    zh = {"accept-language": "zh"}
    found = client("GET", "/studio/start/race", headers=zh).json()
    assert any("\u4e00" <= letter <= "\u9fff" for letter in found["heats"][0]["title"])
    layer = client("GET", "/studio/lineage/layer?layer=delta", headers=zh).json()
    assert any("\u4e00" <= letter <= "\u9fff" for letter in layer["change"] + layer["title"])
    assert client("GET", "/studio/lineage/layer?layer=delta").json()["change"].isascii()


# What there is to read


def test_every_idea_of_the_lineage_is_whole(client):
    for idea in history.IDEAS:
        found = client("GET", f"/studio/lineage/layer?layer={idea.name}").json()
        assert found["card"]["STATE"], idea.name
        assert found["card"]["UPDATE"], idea.name
        assert len(found["page"]) > 2, idea.name
        assert set(idea.after) <= set(history.BY_NAME), idea.name
        assert not any(
            other.column == idea.column and other.row == idea.row and other != idea for other in history.IDEAS
        )


def test_the_packaged_claims_are_those_of_the_results():
    assert tool.TO.read_text(encoding="utf-8") == tool.compact()


def test_every_chapter_is_shown_in_both_languages(client):
    for lang in ("en", "zh"):
        chapters = client("GET", "/studio/course/chapters", headers={"accept-language": lang}).json()["chapters"]
        assert len(chapters) == 13
        for chapter in chapters:
            path = f"/studio/course/chapter?chapter={chapter['number']}"
            found = client("GET", path, headers={"accept-language": lang}).json()
            parts = [part for section in found["sections"] for part in section["parts"]]
            kinds = {part["kind"] for part in parts}
            assert {"text", "python", "sh", "figure", "printed"} <= kinds, chapter
            for part in parts:
                if part["kind"] == "figure":
                    assert client("GET", f"/studio/course/figure/{part['file']}").status == 200, part
                if part["kind"] == "formula":
                    assert part["html"].startswith("<math"), part
            assert "<script" not in json.dumps(found)


def test_html_in_a_page_stays_text_and_links_lead_to_views():
    html = to_html(
        "a <script>x</script> [lstm](../layers/lstm.zh.md) [two](02-rnn.md) [x](../notes.md) [y](javascript:1)",
        "course",
    )
    assert "&lt;script&gt;" in html
    assert 'href="#lineage?layer=lstm"' in html
    assert 'href="#course?chapter=2"' in html
    assert "notes.md" not in html
    assert "<a>" not in html.replace("<a>x</a>", "")
    assert "javascript" not in html or "href" not in html.partition("javascript")[0].rpartition("<a")[2]
    assert [part["kind"] for part in split_page("text\n\n$$x^2$$\n\n![c](figures/f.svg)\n", "course")] == [
        "text",
        "formula",
        "figure",
    ]


@pytest.mark.parametrize("page", studio_runs.HEADS)
def test_the_figures_of_the_page_are_those_of_the_results(page):
    text = (studio_runs.ROOT / "docs" / page).read_text(encoding="utf-8")
    assert studio_runs.fill_page(page, text) == text
    assert "<!-- studio-runs -->\n| " in text
