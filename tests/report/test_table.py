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
