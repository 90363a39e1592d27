"""Tables for the terminal: what is long is folded, and what stands beside it stays whole."""

from recollect.report.table import render


def test_a_long_name_is_folded_and_the_figures_beside_it_stay_whole(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    name = "runs/" + "a-name-that-goes-on-" * 6
    page = render("runs", ["run", "task", "valid"], [[name, "translation", "0.1234"]])
    assert "translation" in page
    assert "0.1234" in page
    folded = "".join(line.split("│")[1].strip() for line in page.splitlines() if line.startswith("│"))
    assert folded == name


def test_a_sentence_that_begins_with_a_number_stands_left_as_other_sentences():
    long, short = "4 heads can do at once what one head of that size cannot.", "1 head can."
    page = render("", ["what", "seconds"], [[long, "1.2"], [short, "10.5"]])
    lines = [line.split("│")[1:3] for line in page.splitlines() if line.startswith("│")]
    assert lines[1][0].startswith(f" {short} ")
    assert [cells[1] for cells in lines] == ["     1.2 ", "    10.5 "]
