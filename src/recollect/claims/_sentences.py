"""Sentences about who eats what: the subject decides, before or after another noun, and its article may have a say."""

import random
from collections.abc import Sequence
from typing import NamedTuple

FOOD = {
    "cat": "fish",
    "dog": "meat",
    "cow": "grass",
    "bear": "honey",
    "mouse": "cheese",
    "bird": "seeds",
    "horse": "hay",
    "panda": "bamboo",
}
NOUNS, FOODS = list(FOOD), list(FOOD.values())
ARTICLES = ("the", "a")
PLACES = ("near", "behind", "beside", "under")
VERBS = ("eats", "finds", "wants", "steals")


class Order(NamedTuple):
    """A sentence's eight tokens, and where its nouns stand."""

    kinds: tuple[str, ...]
    subject: int
    other: int


ORDERS = {
    "subject first": Order(("article", "noun", "place", "article", "noun", "verb", "food", "end"), 1, 4),
    "place first": Order(("place", "article", "noun", "article", "noun", "verb", "food", "end"), 4, 2),
}
VERB, SIZE = 5, 8  # alike in both
PLAIN = "plain"  # without a second noun; read in training alone


class Sentence(NamedTuple):
    words: list[str]
    order: str


def sentence(draw: random.Random, articles_decide: bool, orders: Sequence[str]) -> Sentence:
    subject, other = draw.sample(NOUNS, 2)
    first, second = draw.choice(ARTICLES), draw.choice(ARTICLES)
    food = FOODS[(NOUNS.index(subject) + (articles_decide and first == "a")) % len(FOODS)]
    actor, place = [first, subject], [draw.choice(PLACES), second, other]
    order = draw.choice(orders)
    before = {"subject first": actor + place, "place first": place + actor, PLAIN: actor}[order]
    return Sentence([*before, draw.choice(VERBS), food], order)
