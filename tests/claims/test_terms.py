"""The hash of what decides a claim: what changes it, and what does not."""

from types import ModuleType

import pytest

from recollect.claims.laboratory.floor import Floor
from recollect.claims.terms import hash_terms

CODE = '''
"""A claim."""

from .claim import Claim

LEAST = 0.5
SIZES = {"steps": 10}


def judge(found):
    """A verdict."""
    # by the least
    return ("holds", "so it is") if min(found) > LEAST else ("fails", f"only {min(found)} of it")


def _form(terms):
    return "10 steps"


CLAIM = Claim(statement="It is so.")
'''


def module(tmp_path, code, **terms):
    path = tmp_path / "claim.py"
    path.write_text(code, encoding="utf-8")
    found = ModuleType("claim")
    found.__file__ = str(path)
    for name, value in ({"LEAST": 0.5, "SIZES": {"steps": 10}} | terms).items():
        setattr(found, name, value)
    return found


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("It is so.", "It is not so."),
        ("10 steps", "ten"),
        ('"""A verdict."""', '"""What was found."""'),
        ("# by the least", "# by the smallest"),
        ('"so it is"', '"it is so"'),
        ('"so it is"', '_("so it is")'),
        ('f"only {min(found)} of it"', 'f"of it only {max(found):.2f}"'),
        ("from .claim import Claim", "from .claim import Claim, Found"),
        ("min(found) > LEAST else", "min(found) > LEAST  else"),
        ("min(found) > LEAST else (", "(min(found) > LEAST) else ("),
    ],
)
def test_words_and_layout_do_not_count(tmp_path, old, new):
    assert old in CODE
    assert hash_terms(module(tmp_path, CODE)) == hash_terms(module(tmp_path, CODE.replace(old, new)))


@pytest.mark.parametrize(
    ("old", "new"), [("> LEAST", ">= LEAST"), ("min(found) >", "max(found) >"), ('"fails"', '"holds"'), ("0.5", "0.6")]
)
def test_code_counts(tmp_path, old, new):
    assert hash_terms(module(tmp_path, CODE)) != hash_terms(module(tmp_path, CODE.replace(old, new)))


@pytest.mark.parametrize(
    "terms",
    [
        {"SIZES": {"steps": 11}},
        {"RATES": (0.1,)},  # as imported from the laboratory
        {"FLOOR": Floor(easy="with one", figure="right", least=0.8)},
    ],
)
def test_terms_count_wherever_they_come_from(tmp_path, terms):
    usual = {"RATES": (0.2,), "FLOOR": Floor(easy="with one", figure="right", least=0.9)}
    assert hash_terms(module(tmp_path, CODE, **usual)) != hash_terms(module(tmp_path, CODE, **usual | terms))


def test_a_terms_words_do_not_count(tmp_path):
    floors = [Floor(easy=easy, figure="right answers", least=0.9) for easy in ("with one pair", "of one pair")]
    found = {hash_terms(module(tmp_path, CODE, FLOOR=floor)) for floor in floors}
    assert len(found) == 1


def test_the_sizes_of_the_other_form_do_not_count(tmp_path):
    code = CODE.replace("SIZES =", "QUICK = FULL =")
    small, large = {"QUICK": 1, "FULL": 2}, {"QUICK": 1, "FULL": 3}
    assert hash_terms(module(tmp_path, code, **small)) == hash_terms(module(tmp_path, code, **large))
    assert hash_terms(module(tmp_path, code, **small), full=True) != hash_terms(
        module(tmp_path, code, **large), full=True
    )
