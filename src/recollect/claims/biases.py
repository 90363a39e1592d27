"""How much of a rating is told by who rates and what is rated, before anything is known of both together.

Generated ratings have a dial for it, so the experiment asks two things: whether the models share the work out as the
truth does, and from where on biases do most of it.
"""

from collections.abc import Mapping, Sequence

from ..core.chart import Chart, Line
from .claim import Claim, Effort, Found, Verdict
from .laboratory.figures import bars, curve, curves, decimal, gather, in_words, judge_settings, limits, show
from .laboratory.training import train

BIASES = (0.2, 0.4, 0.8)  # standard deviations of a user's and of an item's bias
DIAL = "standard deviation of each bias"
SPREAD = 0.8  # that of what user and item have together
RANK = 3
QUICK = {"users": 400, "items": 300, "ratings": 24_000}
FULL = {"users": 2000, "items": 1500, "ratings": 400_000}
STEPS = (500, 3000)
SEEDS = (3, 5)
MOST = 0.5  # of the variance that the whole model explains


def run(effort: Effort) -> Found:
    rows = {bias: [one(bias, seed, effort) for seed in effort.seed_range(*SEEDS)] for bias in BIASES}
    errors = {bias: gather(each) for bias, each in rows.items()}
    shares = {bias: [share(row) for row in each] for bias, each in rows.items()}
    true = {bias: 2 * bias**2 / (2 * bias**2 + SPREAD**2) for bias in BIASES}
    words = [
        f"{show(shares[bias], 2)} where their true share is {true[bias]:.2f} (RMSE "
        + ", ".join(f"{name} {sum(values) / len(values):.3f}" for name, values in each.items())
        + ")"
        for bias, each in errors.items()
    ]
    verdict = judge(shares)
    where = " and ".join(str(bias) for bias, values in shares.items() if min(values) > MOST)
    return Found(
        verdict=verdict,
        summary="biases explain of what the whole model explains: "
        + "; ".join(words)
        + limits(verdict, f"; the limits: only where each bias has a standard deviation of {where}"),
        figures={"rows": rows, "shares": shares, "true shares": true},
        charts=[
            Chart(
                "Share of the explained variance that biases explain",
                DIAL,
                "share",
                [curve("found", shares), Line("in truth", list(true), list(true.values()))],
                level=MOST,
                level_name=in_words(MOST),
            ),
            bars(
                "Error with and without biases",
                DIAL,
                "RMSE",
                curves({name: {str(bias): errors[bias][name] for bias in BIASES} for name in errors[BIASES[0]]}),
            ),
        ],
    )


def one(bias: float, seed: int, effort: Effort) -> dict[str, float]:
    """RMSE of the mean rating, of biases alone, of vectors alone, and of both."""
    data = effort.pick(QUICK, FULL) | {"rank": RANK, "true_bias": bias, "spread": SPREAD, "data_seed": seed}
    common = {"steps": effort.pick(*STEPS), "seed": seed, "device": effort.device} | data
    both = train("ratings", "dot", dim=RANK, **common)
    return {
        "mean": float(both.figures["baselines"]["mean"]),
        "biases": train("ratings", "biases", **common).metric,
        "vectors": train("ratings", "dot", dim=RANK, bias=False, **common).metric,
        "both": both.metric,
    }


def share(row: Mapping[str, float]) -> float:
    """What biases take away of the variance, over what both together take away."""
    return (row["mean"] ** 2 - row["biases"] ** 2) / (row["mean"] ** 2 - row["both"] ** 2)


def judge(shares: Mapping[float, Sequence[float]]) -> Verdict:
    """From the share of the biases in each seed, at each setting of the dial."""
    return judge_settings(shares, above=MOST)


CLAIM = Claim(
    statement="In ratings most of what can be foretold comes from biases: how a user rates and how an item is rated.",
    sources=("Koren, Bell & Volinsky 2009, Matrix Factorization Techniques for Recommender Systems",),
    experiment="""Ratings are made with biases of three sizes beside a dot product of fixed size; biases alone, vectors
    alone (without the mean rating too) and both together are trained, and the explained variance compared.""",
    decided=f"""Biases of standard deviation {decimal(BIASES[0])}, {decimal(BIASES[1])} and {decimal(BIASES[2])} each
    beside a dot product of {decimal(SPREAD)}; {QUICK["users"]} users, {QUICK["items"]} items, {QUICK["ratings"]:,}
    ratings, {STEPS[0]} steps, {SEEDS[0]} seeds of data and weights (full: {FULL["users"]:,}, {FULL["items"]:,},
    {FULL["ratings"]:,}, {STEPS[1]:,} steps, {SEEDS[1]} seeds). Biases do most where they explain more than
    {in_words(MOST)} of the variance that both explain, in every seed. Holds if that is so at all three settings; within
    limits if at some; does not hold if in no seed at any; otherwise undecided.""",
    run=run,
    note="""The statement was made of real ratings, such as those of the Netflix Prize. Generated ones can only show
    where the line lies, and that the models find the share that is there.""",
)
