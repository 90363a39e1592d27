"""The table of baselines in the page on forecasting is that of the committed rows."""

import json
from pathlib import Path

from benchmarks import forecasting

ROOT = Path(__file__).resolve().parents[2]


def test_the_table_of_the_page_is_made_of_the_committed_rows():
    found = json.loads(forecasting.PATH.read_text(encoding="utf-8"))
    text = (ROOT / "docs" / "forecasting.md").read_text(encoding="utf-8")
    assert text.split("<!-- baselines -->\n")[1].split("<!-- /baselines -->")[0] == forecasting.table(found)
