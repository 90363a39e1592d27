"""Ratings, features and titles, read from files or generated."""

import gzip
from dataclasses import replace

import numpy as np
import pytest

from recollect.data.files import DataError
from recollect.tasks.ratings import data as sets
from recollect.tasks.ratings.settings import DataConfig
from tasks.ratings.cases import LINES


@pytest.mark.parametrize(
    ("separator", "header", "packed"),
    [("\t", "", False), ("::", "", False), (",", "userId,movieId,rating,timestamp\n", False), ("\t", "", True)],
    ids=["tabs", "colons", "commas and a header", "packed"],
)
def test_the_layouts_of_movielens_are_read(tmp_path, separator, header, packed):
    plain = tmp_path / "u.data"
    plain.write_text("\n".join(LINES) + "\n")
    other = tmp_path / "other"
    data = (header + "\n".join(LINES).replace("\t", separator)).encode()
    other.write_bytes(gzip.compress(data) if packed else data)
    a, b = sets.load(plain), sets.load(other)
    assert a.fingerprint == b.fingerprint
    assert sorted(a.artifacts.users, key=int) == [str(n) for n in range(1, 13)]
    assert sum(len(part.scores) for part in (a.train, a.valid, a.test)) == len(LINES)
    assert a.artifacts.mean == pytest.approx(a.train.scores.mean())
    for part in (a.train, a.valid, a.test):
        for user, item, score in zip(*part, strict=True):
            u, i = int(a.artifacts.users[user]), int(a.artifacts.items[item])
            assert score == 1 + (u * i) % 5


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1\t2\t3\n1\t2\n", r"expected 3 cells with '\\t' between, found '1\\t2' in line 2 of .*u.data"),
        ("1 2 3\n", "tabs, '::' or commas between, found '1 2 3' in line 1"),
        ("1\t2\t3\n1\t2\tgood\n", "expected a number in cell 3, found 'good' in line 2"),
        ("1\t2\t3\n1\t2\t1e39\n", "expected a number in cell 3, found '1e39' in line 2"),
        ("1\t2\t3\n1\t2\tnan\n", "expected a number in cell 3, found 'nan' in line 2"),
        ("1\t2\t3\n\t2\t4\n", r"expected 3 cells .* in line 2"),
        ("1\t2\t3\n", "expected ratings for the .* part, found none"),
        ("1,2,3\n" + "9" * 200_000 + ",2,3\n", "expected cells of a table, found others in line 2"),
        ("", "found an empty file"),
    ],
    ids=lambda value: value[:24],
)
def test_what_is_no_rating_is_refused_with_file_and_line(tmp_path, content, message):
    (tmp_path / "u.data").write_text(content)
    with pytest.raises(DataError, match=message) as caught:
        sets.load(tmp_path / "u.data")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("header", "line"),
    [
        ("User-ID;ISBN;Book-Rating", '"{u}";"{i}";"{r}"'),
        ("user_id,item_id,timestamp,rating", "{u},{i},88125094,{r}"),
        ("rating,movieId,userId", '{r},"{i}",{u}'),
    ],
    ids=["quotes and semicolons", "a time before the rating", "another order"],
)
def test_a_header_says_which_column_is_which(tmp_path, header, line):
    (tmp_path / "u.data").write_text("\n".join(LINES))
    cells = [one.split("\t") for one in LINES]
    rows = [line.format(u=user, i=item, r=rating) for user, item, rating, _ in cells]
    (tmp_path / "other.csv").write_text("\n".join([header, *rows]))
    assert sets.load(tmp_path / "other.csv").fingerprint == sets.load(tmp_path / "u.data").fingerprint
    (tmp_path / "other.csv").write_text(header + "\n" + rows[0] + "\n" + rows[1].replace(cells[1][2], "good"))
    with pytest.raises(DataError, match=r"expected a number in cell \d, found .*good.* in line 3"):
        sets.load(tmp_path / "other.csv")


def test_what_stands_in_quotes_is_one_cell(tmp_path):
    (tmp_path / "u.data").write_text("\n".join(LINES))
    titles = "movieId,title,genres\n" + "\n".join(f'{i},"Film {i}, The (1995)",Comedy' for i in range(100, 110))
    (tmp_path / "movies.csv").write_text(titles)
    found = sets.load(tmp_path / "u.data", titles=tmp_path / "movies.csv")
    assert found.artifacts.title(found.artifacts.items.index("104")) == "Film 104, The (1995)"


def test_a_pair_that_comes_twice_is_on_one_side(tmp_path):
    (tmp_path / "u.data").write_text("\n".join(LINES + LINES))
    found = sets.load(tmp_path / "u.data", share=0.2)
    assert found.notes == ["120 of 240 ratings are of a pair that was rated before; each counts"]
    pairs = [
        {(user, item) for user, item, _ in zip(*part, strict=True)} for part in (found.train, found.valid, found.test)
    ]
    assert sum(map(len, pairs)) == len(set.union(*pairs))
    assert all(pairs)


def test_who_was_never_seen_has_the_number_after_the_last(tmp_path):
    (tmp_path / "u.data").write_text("\n".join(LINES))
    (tmp_path / "new").write_text("1\t100\t5\n99\t100\t3\n1\t999\t3\n")
    found = sets.load(tmp_path / "u.data", valid=[tmp_path / "new"], test=[tmp_path / "new"])
    assert len(found.train.scores) == len(LINES)
    assert found.valid.users.tolist()[1:] == [12, found.valid.users[0]]
    assert found.valid.items.tolist()[2] == 10
    assert "2 of 3 valid ratings have a user or an item that is new" in found.notes


def test_generated_ratings_are_what_the_features_say():
    made = DataConfig(users=50, items=40, ratings=1500, noise=0.0)
    found = sets.load(generated=made)
    truth = found.truth
    for part in (found.train, found.valid):
        dot = (truth.users[part.users] * truth.items[part.items]).sum(axis=1)
        expected = 3.5 + truth.user_bias[part.users] + truth.item_bias[part.items] + dot
        assert np.allclose(part.scores, expected, atol=1e-5)
    assert sets.load(generated=made).fingerprint == found.fingerprint
    assert sets.load(generated=replace(made, data_seed=1)).fingerprint != found.fingerprint
    with pytest.raises(DataError, match=r"from 1 to users × items = 2,000 ratings, found 2,001"):
        sets.load(generated=replace(made, ratings=2001))


def test_features_and_titles_come_from_files(tmp_path):
    (tmp_path / "u.data").write_text("\n".join(LINES))
    (tmp_path / "features").write_text("item\tfunny\tlong\n" + "\n".join(f"{i}\t{i}\t0.5" for i in range(100, 109)))
    (tmp_path / "titles").write_text("\n".join(f"{i}|Film {i}|1995" for i in range(100, 110)))
    found = sets.load(tmp_path / "u.data", features=tmp_path / "features", titles=tmp_path / "titles")
    place = found.artifacts.items.index("104")
    assert found.artifacts.matrix[place].tolist() == [104, 0.5]
    assert found.artifacts.matrix[found.artifacts.items.index("109")].tolist() == [0, 0]
    assert any("1 of 10 items have no features" in note for note in found.notes)
    assert found.artifacts.title(place) == "Film 104"
    (tmp_path / "features").write_text("100\t1\t2\n101\t1\n")
    with pytest.raises(DataError, match="expected an item and 2 numbers as in the first line, .* in line 2"):
        sets.load(tmp_path / "u.data", features=tmp_path / "features")
    with pytest.raises(DataError, match="found 'truth', which only generated ratings have"):
        sets.load(tmp_path / "u.data", features="truth")


@pytest.mark.parametrize("kind", ["users", "items"])
def test_names_that_generated_ratings_do_not_have_are_refused(kind):
    config = DataConfig(users=20, items=10, ratings=100)
    made = sets.load((), generated=config).artifacts
    other = replace(made, **{kind: ("nobody", *getattr(made, kind)[1:])})
    for features in (None, "truth"):
        with pytest.raises(DataError, match='found one with the (user|item) "nobody"'):
            sets.load((), generated=config, artifacts=other, features=features)
