"""Generated opinions: different sentences, labelled by their grammar, cut by hash."""

from recollect.tasks.labels import data
from recollect.tasks.labels.opinions import LABELS, VERBS, WORDS, Opinions, is_tested, opinions

SAID = {word: label for label, some in WORDS.items() for word in some}
SAID |= {form: label for label, some in VERBS.items() for verb in some for form in verb}
DENIALS = {"not", "hardly", "never"}


def judge(clause):
    """The label of a clause, by the word that praises or blames and whether it is denied."""
    words = clause.lower().split()
    (said,) = {SAID[word] for word in words if word in SAID}
    return LABELS[1 - LABELS.index(said)] if DENIALS & set(words) else said


def read(sentence):
    """The label of a sentence, read by the rules of its grammar anew."""
    text = sentence.lower()
    if " but " in text:
        return judge(text.split(" but ")[1])
    if " although " in text:
        return judge(text.split(" although ")[0])
    if text.startswith("although "):  # the clause after the first: it begins with the last subject
        words = text.split()
        starts = [n for n, word in enumerate(words) if word in ("the", "this", "their", "i", "we", "they")]
        starts = [n for n in starts if n == 1 or words[n - 1] not in ("love", "enjoy", "admire", "like", "hate")]
        said = [n for n, word in enumerate(words) if word in SAID]
        second = [n for n in starts if n > said[0] and n <= said[-1]]
        return judge(
            " ".join(words[second[-1] if words[second[-1]] in ("i", "we", "they") else _subject(words, second) :])
        )
    return judge(text.split(" and ")[0])


def _subject(words, starts):
    """Of an object and a subject after it, the subject: a verb stands behind its thing."""
    return next(
        (n for n in reversed(starts) if words[n + 2 : n + 3] and words[n + 2] in ("was", "is", "seemed")), starts[-1]
    )


def test_labels_follow_from_the_grammar():
    some = opinions()[:1500]
    assert len({text for text, _ in some}) == len(some)
    wrong = [(text, label) for text, label in some if read(text) != label]
    assert wrong == []
    kinds = [sum(word in f" {text} " for text, _ in some) for word in (" but ", " although ", " not ", " and ")]
    assert min(kinds) > 50


def test_no_sentence_is_in_two_parts():
    made = Opinions()
    parts = {name: {text.lower() for _, text, _ in made.rows(place[0])} for name, place in made.places.items()}
    assert not parts["train"] & parts["test"]
    assert 0.08 < len(parts["test"]) / sum(map(len, parts.values())) < 0.12
    assert all(is_tested(text) for text in parts["test"])


def test_they_are_read_as_any_table():
    found = data.load("opinions")
    assert found.artifacts.classes == LABELS
    assert found.artifacts.kind == "texts"
    assert found.test is not None
    again = data.load("opinions")
    assert found.fingerprint == again.fingerprint
