"""The English of the gap test: people, countries and languages, the sentences about them, and a text made of those."""

from collections.abc import Iterator, Sequence
from itertools import chain

from .random_choices import pick, some

LANGUAGES = {
    "China": "Chinese", "France": "French", "Germany": "German", "Greece": "Greek", "Hungary": "Hungarian",
    "Italy": "Italian", "Japan": "Japanese", "Poland": "Polish", "Russia": "Russian", "Spain": "Spanish",
    "Sweden": "Swedish", "Turkey": "Turkish",
}  # fmt: skip
NAMES = {
    "Anna": "She", "Clara": "She", "Emma": "She", "Maria": "She",
    "David": "He", "Paul": "He", "Tom": "He", "Victor": "He",
}  # fmt: skip
WHO, WHERE = "{who}", "{where}"
FACTS = [text.split() for text in ("{who} grew up in {where} .", "{who} was raised in {where} .")]
VISITS = [
    text.split()
    for text in (
        "{who} once visited {where} .",
        "{who} has friends in {where} .",
        "{who} likes the food of {where} .",
    )
]
FILLERS = [
    text.split()
    for text in (
        "It rained .",
        "Time passed .",
        "Nobody knew why .",
        "Winter came early .",
        "The days were long .",
        "The train was late .",
        "The garden was green .",
        "Children played in the street .",
        "A cat slept near the window .",
        "Many people walked in the park .",
        "The river was cold and deep .",
        "The old house had a red door .",
    )
]
SHORTEST_VISIT, SHORTEST_FILLER = (min(map(len, texts)) for texts in (VISITS, FILLERS))
QUESTION = ["speaks", "fluent"]
WORDS = sorted(
    {*chain(*FACTS, *VISITS, *FILLERS, QUESTION, *LANGUAGES.items(), *NAMES.items())} - {WHO, WHERE},
)
NUMBER = {word: i for i, word in enumerate(WORDS)}


def write(numbers: Iterator[float], *, distance: int, load: int, distractors: int) -> list[str]:
    """One text, to its last answer."""
    names = some(numbers, list(NAMES), load)
    homes = {name: pick(numbers, list(LANGUAGES)) for name in names}
    others = some(numbers, [place for place in LANGUAGES if place not in homes.values()], distractors)
    called = {name: NAMES[name] if load == 1 else name for name in names}
    words = [word for name in names for word in fill(pick(numbers, FACTS), name, homes[name])]
    sentences, left = [], distance
    for done, place in enumerate(others):
        rest = len(others) - done - 1
        visit = pick(numbers, [v for v in VISITS if fits(left - len(v), rest)])
        left -= len(visit)
        sentences.append(fill(visit, called[pick(numbers, names)], place))
    sentences += fill_up(numbers, left)
    words += chain(*some(numbers, sentences, len(sentences)))
    for name in some(numbers, names, load):
        words += [called[name], *QUESTION, LANGUAGES[homes[name]], "."]
    return words[:-1]


def fill_up(numbers: Iterator[float], left: int) -> list[list[str]]:
    """Sentences of so many words together that say nothing."""
    found = []
    while left:
        filler = pick(numbers, [f for f in FILLERS if fits(left - len(f), 0)])
        left -= len(filler)
        found.append(filler)
    return found


def fits(words: int, visits: int) -> bool:
    """Whether so many words are made of whole sentences, `visits` of which are visits of 5, 6 or 7 words."""
    return words >= visits * SHORTEST_VISIT if visits else words == 0 or words >= SHORTEST_FILLER


def fill(text: Sequence[str], who: str, where: str) -> list[str]:
    return [{WHO: who, WHERE: where}.get(word, word) for word in text]
