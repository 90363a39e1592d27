"""Texts in the language of the reader: which language that is, and how a finished text is found in the catalogue."""

import pytest

from recollect.core import language as languages
from recollect.core.language import LOCALE, breakable, columns, fill, language, localize, parse_catalogue, speaking

CATALOGUE = r"""
# a head
msgid ""
msgstr "Language: zh\n"

#: cli/train.py
msgid "Run folder."
msgstr "运行文件夹。"

msgid "{rows:,} runs"
msgstr "{rows} 次运行"

msgid ""
"{name} won: "
"{score}, by {by}."
msgstr "{name} 胜出：{score!t}，领先 {by}。"

msgid " It is marked: {why}."
msgstr "它带有标记：{why!t}。"

msgid "it ran out of memory"
msgstr "它耗尽了内存"

msgid "share right"
msgstr "答对的比例"

msgid "loss"
msgstr "损失"

msgid "uniform"
msgstr "均匀猜测"

msgid "step {step:,}"
msgstr "第 {step} 步"

msgid "{low:g} to {high:g}"
msgstr "{low} 至 {high}"

msgid "right answers of each model: {told}."
msgstr "每个模型的正确率：{told!t}。"

msgid "the {model} answers right, {share:.0%} of all"
msgstr "{model} 答对，占 {share}"

msgid "these models keep up: {names}"
msgstr "跟得上的模型：{names}"

msgid "not yet translated"
msgstr ""
"""


@pytest.fixture
def small_catalogue(monkeypatch):
    def clear():
        languages._prepare.cache_clear()
        languages._search.cache_clear()

    monkeypatch.setattr(languages, "read_catalogue", lambda code: parse_catalogue(CATALOGUE))
    clear()
    with speaking("zh"):
        yield
    clear()


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "zh_CN.UTF-8", "LC_MESSAGES": "de_DE.UTF-8"}, "en"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, "en"),
        ({"LANG": "en_GB.UTF-8", "LC_ALL": "zh_TW"}, "zh"),
        ({"LANG": "zh_CN.UTF-8", "RECOLLECT_LANG": "en"}, "en"),
        ({"LANG": "C", "RECOLLECT_LANG": "zh"}, "zh"),
        ({"RECOLLECT_LANG": "ZH-Hans"}, "zh"),
        ({"RECOLLECT_LANG": "zha"}, "en"),
        ({"RECOLLECT_LANG": "", "LANG": "zh"}, "zh"),
    ],
)
def test_the_language_is_that_of_the_variable_then_of_the_locale(monkeypatch, found, expected):
    for name in ("RECOLLECT_LANG", *LOCALE):
        monkeypatch.delenv(name, raising=False)
    for name, value in found.items():
        monkeypatch.setenv(name, value)
    assert language() == expected


def test_a_language_is_spoken_inside_alone():
    with speaking("zh"):
        assert language() == "zh"
    assert language() == "en"
    with pytest.raises(ValueError, match="--lang: expected one of en, zh, found 'fr'"), speaking("fr"):
        pass


def test_english_texts_are_left_as_they_are():
    assert localize("Run folder.") == "Run folder."
    assert localize("12 runs") == "12 runs"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Run folder.", "运行文件夹。"),
        ("run folder.", "运行文件夹。"),  # with or without a capital
        ("1,234 runs", "1,234 次运行"),
        ("many runs", "many runs"),  # no number
        ("1.5 runs", "1.5 runs"),  # none that is whole
        ("step 7", "第 7 步"),
        ("gru won: share right 91.0 %, by 0.5 points.", "gru 胜出：答对的比例 91.0 %，领先 0.5 points。"),
        (
            "gru won: loss 0.41, by 0.02. It is marked: it ran out of memory.",
            "gru 胜出：损失 0.41，领先 0.02。它带有标记：它耗尽了内存。",
        ),
        ("loss 0.41", "损失 0.41"),
        ("uniform 4.2, loss 3", "均匀猜测 4.2，损失 3"),
        ("uniform 4.2, mine 3", "uniform 4.2, mine 3"),  # a list is taken apart where all of it is known
        ("recall: step 3", "recall：第 3 步"),
        ("loss (step 3)", "损失（第 3 步）"),
        ("not yet translated", "not yet translated"),
        ("step 3\nRun folder.", "第 3 步\n运行文件夹。"),
        (
            "Right answers of each model: gru 0.5 (0.4 to 0.6), rnn 1e-3 (0.0 to 0.2).",
            "每个模型的正确率：gru 0.5（0.4 至 0.6），rnn 1e-3（0.0 至 0.2）。",
        ),
        (  # no template takes more than one part of a list
            "the gru answers right, 90% of all; the rnn answers right, 10% of all",
            "gru 答对，占 90%；rnn 答对，占 10%",
        ),
        ("these models keep up: gru, rnn.", "跟得上的模型：gru, rnn。"),  # the full stop is not a name's
        ("Share right.", "答对的比例。"),
        ("load 4, rate 5", "load 4, rate 5"),
        ("", ""),
        ("–", "–"),
    ],
)
def test_a_finished_text_is_found_whole_as_a_template_or_in_its_parts(small_catalogue, text, expected):
    assert localize(text) == expected


def test_what_is_translated_stays_so(small_catalogue):
    for text in ("gru won: loss 0.41, by 0.02.", "12 runs", "loss (step 3)"):
        assert localize(localize(text)) == localize(text)


def test_only_places_that_ask_for_it_are_translated(small_catalogue):
    values = {"a": "loss", "b": "loss"}
    assert fill("{a} {b!t} {{c}}", values, "zh") == "loss 损失 {c}"


def test_the_reader_of_catalogues_joins_lines_and_leaves_out_what_has_no_translation():
    found = parse_catalogue(CATALOGUE)
    assert found["{name} won: {score}, by {by}."] == "{name} 胜出：{score!t}，领先 {by}。"
    assert "not yet translated" not in found
    assert "" not in found


def test_chinese_characters_take_two_columns_and_may_be_parted():
    assert columns("状态 h") == 6
    assert breakable("读 h，然后 write") == ["读", " h，", "然", "后", " write"]
    assert "".join(breakable("a text in English")) == "a text in English"
