"""Caption files in each layout."""

import pytest

from recollect.data.files import DataError
from recollect.tasks.captions.caption_files import Skipped, plain, read_captions
from recollect.tasks.captions.tokens import words_of


@pytest.mark.parametrize(
    ("caption", "wanted"),
    [
        ("A child in a pink dress is climbing .", "a child in a pink dress is climbing"),
        ("Two dogs, of different breeds; looking!", "two dogs of different breeds looking"),
        ('A man\'s tri-colored "dog" - running', "a man's tri-colored dog running"),
        ("ÉTÉ à la plage…", "été à la plage"),
        ("一只狗。", "一只狗"),
        ("  ... ", ""),
        ("$5 + 3 = 8", "5 3 8"),
    ],
)
def test_a_caption_is_its_words_in_small_letters(caption, wanted):
    assert plain(caption) == wanted


def test_captions_are_read_in_each_layout(tmp_path):
    layouts = {
        "captions.tsv": "a.jpg\tOne dog .\nb.jpg\tTwo dogs .\na.jpg\tA dog\n",
        "flickr.txt": "a.jpg#0\tOne dog .\na.jpg#1\tA dog\nb.jpg#0\tTwo dogs .\n",
        "kaggle.txt": 'image,caption\na.jpg,One dog .\na.jpg,"A, dog"\nb.jpg,Two dogs .\n',
        "headed.csv": '"File name","Caption"\r\n"a.jpg","One dog ."\r\na.jpg,A dog\r\nb.jpg,Two dogs .\r\n',
        "plain.csv": "a.jpg,One dog .\na.jpg,A dog\nb.jpg,Two dogs .\n",
        "tabs.csv": "a.jpg\tOne dog .\na.jpg\tA, dog\nb.jpg\tTwo dogs .\n",
        "headed.tsv": "image\tcaption\na.jpg\tOne dog .\na.jpg\tA dog\nb.jpg\tTwo dogs .\n",
    }
    for name, text in layouts.items():
        (tmp_path / name).write_text(text)
        assert read_captions(tmp_path / name) == {"a.jpg": ["one dog", "a dog"], "b.jpg": ["two dogs"]}, name


def test_a_line_that_is_no_caption_is_named_by_its_number_in_the_file(tmp_path):
    for name, text in {
        "kaggle.txt": 'image,caption\na.jpg,"One\ndog"\nb.jpg,...\nalone\n',
        "captions.tsv": "image\tcaption\na.jpg\tOne dog\n\nb.jpg\t...\nalone\n",
    }.items():
        (tmp_path / name).write_text(text)
        left = Skipped()
        assert list(read_captions(tmp_path / name, left)) == ["a.jpg"]
        assert [told.rpartition(": ")[2] for told in left.notes()] == [f"line 4 of {name}", f"line 5 of {name}"]


def test_a_cell_that_never_ends_is_one_line(tmp_path):
    (tmp_path / "captions.csv").write_text('image,caption\na.jpg,One dog\nb.jpg,"' + "dog " * 50_000 + "\n")
    with pytest.raises(DataError, match=r"captions.csv, line 3: expected CSV"):
        read_captions(tmp_path / "captions.csv")


def test_rare_words_are_unknown():
    some = [["a dog", "a cat"], ["a dog runs"]]
    assert words_of(some, 2).words[2:] == ["a", "dog"]
    assert words_of(some).words[2:] == ["a", "dog", "cat", "runs"], "few captions: every word"
    with pytest.raises(DataError, match="at least 9 times in training, found none"):
        words_of(some, 9)


def test_a_caption_of_any_length_is_left_out(tmp_path):
    path = tmp_path / "captions.tsv"
    path.write_text(f"a.png\t{'a word ' * 10_000}\na.png\ta cat\n")
    skipped = Skipped()
    assert read_captions(path, skipped) == {"a.png": ["a cat"]}
    assert skipped.notes() == ["1 captions of more than 10,000 characters: line 1 of captions.tsv"]
