"""The frame of all views: what the server sends, and the page in a browser."""

import re

import pytest

from recollect.studio import messages
from recollect.studio.arrays import pack
from recollect.studio.assets import POLICY
from recollect.studio.views import VIEWS


def test_the_page_has_a_policy_without_inline_scripts_and_styles(client):
    found = client.get("/")
    text = found.body.decode()
    assert found.status == 200
    assert found.headers["content-security-policy"] == POLICY
    assert "unsafe" not in POLICY
    assert not re.search(r"<style|<script(?![^>]* src=)|style=|\son\w+=", text)
    for address in re.findall(r'(?:src|href)="([^"]+)"', text):
        assert client.get(address).status == 200, address


def test_every_view_has_its_script(client):
    for view in VIEWS:
        found = client.get(f"/studio/static/views/{view.name}.js")
        assert (found.status, found.headers["content-type"]) == (200, "text/javascript; charset=utf-8")


def test_a_file_that_the_browser_has_is_not_sent_again(client):
    first = client.get("/studio/static/shell.js")
    again = client.get("/studio/static/shell.js", headers={"if-none-match": first.headers["etag"]})
    assert (again.status, again.body) == (304, b"")


@pytest.mark.parametrize(
    "name",
    ["../app.py", "..%2fapp.py", "/etc/passwd", "lib/../../app.py", "lib", "", "shell.js/", "SHELL.JS", "shell.js\0"],
)
def test_only_files_of_the_pages_are_sent(client, name):
    assert client.get(f"/studio/static/{name}").status == 404


def test_the_link_leads_to_the_page(client):
    found = client.get("/?token=a-token-of-the-tests", headers={"authorization": None})
    assert (found.status, found.headers["location"]) == (303, "/")


def test_texts_of_scripts_are_found():
    source = 't("one {count}", {count}); put("two"); x.t("three"); t(\n  "four \\"five\\""); t(`six`)'
    assert list(messages.texts_of_script(source)) == ["one {count}", 'four "five"']


def test_arrays_are_packed_as_the_page_reads_them():
    import json
    import struct

    import numpy as np

    packed = pack({"at": 3}, {"a": np.arange(3, dtype=np.uint8), "b": np.ones((2, 2), np.float16)})
    (length,) = struct.unpack("<I", packed[:4])
    head = json.loads(packed[4 : 4 + length])
    assert head["at"] == 3
    assert (4 + length) % 8 == 0
    entry = head["arrays"][1]
    assert (entry["name"], entry["type"], entry["shape"], entry["at"] % 8) == ("b", "float16", [2, 2], 0)
    found = np.frombuffer(packed, "<f2", 4, 4 + length + entry["at"])
    assert found.tolist() == [1, 1, 1, 1]
