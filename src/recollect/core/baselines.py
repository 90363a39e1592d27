"""Where a figure stands beside what needs no training, in a line; less is better."""

from collections.abc import Mapping

from . import numbers

TIE = 0.001  # of a figure: a smaller difference is none


def compare(value: float, baselines: Mapping[str, float], instead: Mapping[str, str]) -> str:
    """A model's figure beside its baselines; `instead` says of those that are models how to use them.

    Who is not below a mere guess has learnt nothing yet; above a baseline that is a model, it is told which.
    """
    known = {name: own for name, own in baselines.items() if numbers.known(own)}
    if not known:
        return ""
    guesses = {name: own for name, own in known.items() if name not in instead}
    models = {name: own for name, own in known.items() if name in instead}
    nothing = [name for name, own in guesses.items() if own <= value * (1 + TIE)]
    better = [name for name, own in models.items() if own < value * (1 - TIE)]
    found = []
    if nothing:
        best = min(nothing, key=guesses.__getitem__)
        found.append(f"{best} {guesses[best]:.4g}, this {value:.4g}: it has learnt nothing yet")
    if better:
        best = min(better, key=models.__getitem__)
        found.append(f"{best} is better, {models[best]:.4g} against {value:.4g}: {instead[best]}")
    if not found:
        listed = ", ".join(f"{name} {own:.4g}" for name, own in known.items())
        found.append(f"this {value:.4g}; none of what needs no training is better: {listed}")
    return "; ".join(found)
