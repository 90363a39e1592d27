"""The site: its links and formulas; links that lead nowhere and requests to other hosts are caught."""

from pathlib import Path

import pytest
from tools import site


@pytest.fixture
def checkout(tmp_path):
    """A root with two pages, a source file and a folder."""
    root = tmp_path / "root"
    (root / "docs").mkdir(parents=True)
    (root / "src" / "part").mkdir(parents=True)
    (root / "src" / "layer.py").write_text("x = 1\n")
    (root / "src" / "part" / "a.py").write_text("")
    (root / "docs" / "glossary.zh.md").write_text("# 术语\n")
    (root / "docs" / "page.zh.md").write_text("# 页\n\n[另一页](page.zh.md) [说明](../README.zh-CN.md)\n")
    for name in site.PAGES:
        (root / name).write_text("# A page\n")
    (root / "docs" / "page.md").write_text(
        "# Page\n\n[code](../src/layer.py) [folder](../src/part) [other](../README.zh-CN.md)\n\n$$a^2$$\n\n"
        "```sh\necho '$$b$$ [no link](../src/layer.py)'\n```\n"
    )
    return root


def staged(root, tmp_path):
    place = tmp_path / "staged"
    site.stage(root, place)
    return place, (place / "docs" / "page.md").read_text()


def test_links_to_files_folders_and_the_chinese_readme_lead_somewhere(checkout, tmp_path):
    place, text = staged(checkout, tmp_path)
    assert "[code](../src/layer.py) [folder](../src/part/files.txt) [other](../../zh/)" in text
    assert (place / "src" / "layer.py").is_file()
    assert (place / "src" / "part" / "files.txt").read_text() == "a.py\n"
    assert (place / "README.zh.md").is_file()


def test_a_chinese_page_leads_to_chinese_pages(checkout, tmp_path):
    place, _ = staged(checkout, tmp_path)
    assert "[另一页](page.md) [说明](../README.md)" in (place / "docs" / "page.zh.md").read_text()


def test_lines_of_chinese_prose_are_joined_and_the_title_stands_first(checkout, tmp_path):
    page = "<!-- en 123456789abc -->\n# 页\n\n一行，\n又一行。\n\n- 甲\n- 乙\n\n```text\n甲\n乙\n```\n"
    (checkout / "docs" / "page.zh.md").write_text(page)
    place, _ = staged(checkout, tmp_path)
    expected = "# 页\n\n一行，又一行。\n\n- 甲\n- 乙\n\n```text\n甲\n乙\n```\n"
    assert (place / "docs" / "page.zh.md").read_text() == expected


def test_a_page_without_a_translation_leads_to_chinese_pages_where_it_is_shown_among_them(checkout, tmp_path):
    (checkout / "docs" / "map.md").write_text("# The map\n\n[中文](page.zh.md)\n")
    place, _ = staged(checkout, tmp_path)
    assert "[中文](../../zh/docs/page/)" in (place / "docs" / "map.md").read_text()
    assert "[中文](page.md)" in (place / "docs" / "map.zh.md").read_text()


def test_formulas_become_mathml_and_code_stays_as_it_is(checkout, tmp_path):
    _, text = staged(checkout, tmp_path)
    assert "<math" in text
    assert "$$a^2$$" not in text
    assert "echo '$$b$$ [no link](../src/layer.py)'" in text


@pytest.mark.parametrize(
    "page",
    [
        '<script src="https://elsewhere.example/a.js"></script>',
        '<link rel="stylesheet" href="//elsewhere.example/a.css">',
        '<img src="http://elsewhere.example/a.png">',
    ],
)
def test_a_request_to_another_host_is_caught(tmp_path, page):
    (tmp_path / "index.html").write_text(page)
    assert len(site.problems(tmp_path)) == 1


def test_what_a_reader_may_follow_is_no_request(tmp_path):
    (tmp_path / "index.html").write_text(
        '<a href="https://elsewhere.example">there</a><link rel="canonical" href="//a">'
    )
    assert site.problems(tmp_path) == []


def test_every_page_of_the_course_is_in_the_navigation():
    settings = (site.THEME / "mkdocs.yml").read_text()
    pages = Path(site.ROOT, "docs", "course").glob("*.md")
    names = {path.name for path in pages if not path.name.endswith(".zh.md")}
    assert [name for name in sorted(names) if f"docs/course/{name}" not in settings] == []


def test_links_are_followed_to_files_and_to_names_in_them(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "index.html").write_text('<h2 id="part">Part</h2>')
    (tmp_path / "index.html").write_text('<a href="there/#part"></a><a href="there/#other"></a><a href="gone/"></a>')
    assert site.problems(tmp_path) == [
        "index.html: the link there/#other leads nowhere",
        "index.html: the link gone/ leads nowhere",
    ]


@pytest.mark.slow
def test_a_link_that_leads_nowhere_is_an_error(monkeypatch, tmp_path, capfd):
    broken = tmp_path / "root"
    site.shutil.copytree(site.ROOT / "docs", broken / "docs")
    for name in site.PAGES:
        site.shutil.copy(site.ROOT / name, broken / name)
    page = broken / "docs" / "contract.md"
    page.write_text(page.read_text() + "\n[nowhere](nowhere.md)\n")
    monkeypatch.setattr(site, "ROOT", broken)
    monkeypatch.setattr("sys.argv", ["site", "--out", str(tmp_path / "out")])
    assert site.main() == 1
    assert "nowhere.md" in "".join(capfd.readouterr())
