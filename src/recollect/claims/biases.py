"""What of a rating is told by who rates and by what is rated, and whether a model finds just that.

The first form asked whether biases explain most of what can be foretold of ratings. That is a statement about ratings
of people, such as those of the Netflix Prize. Generated ratings have a dial for it, so that the dial decided. What is
asked now can fail at any setting of the dial: whether a model finds the share that is there. With 24,000 ratings the
biases alone fitted noise, by just about the margin where there are none, and seeds decided: now 60,000.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean

from ..core.chart import Chart, Line
from .claim import Claim, Effort, Found, Verdict
from .laboratory.figures import bars, curve, curves, gather, show
from .laboratory.floor import Floor
from .laboratory.training import train

BIASES = (0.0, 0.2, 0.4, 0.8)  # standard deviations of a user's and of an item's bias
DIAL = "standard deviation of each bias"
SPREAD = 0.8  # that of what user and item have together
NOISE = 0.3
RANK = 3
MORE = 2  # numbers that a vector without biases has in addition, enough to write both biases with
QUICK = {"users": 400, "items": 300, "ratings": 60_000}
FULL = {"users": 2000, "items": 1500, "ratings": 400_000}
STEPS = (800, 3000)
SEEDS = (3, 5)
NEAR = 0.05  # of the share that is there
WORSE = 0.02  # error, of vectors without biases
FLOOR = Floor(
    easy="on ratings without biases",
    figure="times the error of the noise",
    most=1.15,
    models="the model of biases and vectors",
)


def run(effort: Effort) -> Found:
    rows = {bias: [one(bias, seed, effort) for seed in effort.seed_range(*SEEDS)] for bias in BIASES}
    errors = {bias: gather(each) for bias, each in rows.items()}
    shares = {bias: [share(row) for row in each] for bias, each in rows.items()}
    true = {bias: 2 * bias**2 / (2 * bias**2 + SPREAD**2) for bias in BIASES}
    verdict, limits = judge(
        {bias: [abs(found - true[bias]) for found in each] for bias, each in shares.items()},
        {bias: [row["vectors"] - row["both"] for row in rows[bias]] for bias in BIASES if bias},
        [row["both"] / NOISE for row in rows[min(BIASES)]],
    )
    words = [
        f"{show(shares[bias], 2)} where it is {true[bias]:.2f} (RMSE "
        + ", ".join(f"{name} {fmean(values):.3f}" for name, values in each.items())
        + ")"
        for bias, each in errors.items()
    ]
    return Found(
        verdict=verdict,
        summary=f"Share of biases in what the whole model explains: {'; '.join(words)}. {limits}",
        figures={"rows": rows, "shares": shares, "true shares": true},
        charts=[
            Chart(
                "Share of the explained variance that biases explain",
                DIAL,
                "share",
                [curve("found", shares), Line("in truth", list(true), list(true.values()))],
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
    """RMSE of the mean rating, of biases alone, of longer vectors alone, and of biases and vectors."""
    data = effort.pick(QUICK, FULL) | {
        "rank": RANK, "true_bias": bias, "spread": SPREAD, "noise": NOISE, "data_seed": seed,
    }  # fmt: skip
    common = {"steps": effort.pick(*STEPS), "seed": seed, "device": effort.device} | data
    both = train("ratings", "dot", dim=RANK, **common)
    return {
        "mean": float(both.figures["baselines"]["mean"]),
        "biases": train("ratings", "biases", **common).metric,
        "vectors": train("ratings", "dot", dim=RANK + MORE, bias=False, **common).metric,
        "both": both.metric,
    }


def share(row: Mapping[str, float]) -> float:
    """What biases take away of the variance, over what both together take away."""
    return (row["mean"] ** 2 - row["biases"] ** 2) / (row["mean"] ** 2 - row["both"] ** 2)


def judge(
    off: Mapping[float, Sequence[float]], worse: Mapping[float, Sequence[float]], floor: Sequence[float]
) -> tuple[Verdict, str]:
    """How far each seed's share is from the truth, what vectors alone err more, and the error without biases."""
    if missing := FLOOR.missing({"both": floor}):
        return Verdict.NOT_LEARNT, f"{missing[0].upper()}{missing[1:]}."
    finds = all(max(values) <= NEAR for values in off.values())
    misses = [bias for bias, values in off.items() if min(values) > NEAR]
    needs = [bias for bias, values in worse.items() if min(values) > WORSE]
    spare = all(max(values) <= WORSE for values in worse.values())
    told = f"The share is found within {NEAR} at every setting" if finds else "The share is not found at every setting"
    where = f"vectors without biases do worse at {', '.join(map(str, needs))}" if needs else "biases can be spared"
    if finds and len(needs) == len(worse):
        return Verdict.HOLDS, f"{told}; vectors without biases do worse at every one."
    if misses and spare:
        return Verdict.FAILS, f"{told}; {where}."
    if finds or len(needs) == len(worse):
        return Verdict.LIMITS, f"{told}; {where}."
    return Verdict.UNDECIDED, f"{told}; {where}."


CLAIM = Claim(
    statement="""Biases beside the vectors of a model of ratings find what belongs to a user or an item alone, which
    vectors by themselves do not make up for.""",
    sources=("Koren, Bell & Volinsky 2009, Matrix Factorization Techniques for Recommender Systems",),
    experiment=f"""Ratings are made with biases of four sizes, none among them, beside a dot product of fixed size;
    biases alone, vectors alone (with {MORE} numbers more, enough to write biases with) and both together are trained,
    and the explained variance compared with the share that was put in.""",
    decided=f"""{FLOOR} Biases of standard deviation {", ".join(f"{bias:g}" for bias in BIASES)} each beside a dot
    product of {SPREAD:g} and noise of {NOISE:g}; {QUICK["users"]} users, {QUICK["items"]} items, {QUICK["ratings"]:,}
    ratings, {STEPS[0]} steps, {SEEDS[0]} seeds of data and weights (full: {FULL["users"]:,}, {FULL["items"]:,},
    {FULL["ratings"]:,}, {STEPS[1]:,} steps, {SEEDS[1]} seeds). Holds if at every setting and with every seed the share
    that biases explain of what both explain is within {NEAR} of the true one, and wherever there are biases vectors
    without them have an error greater by over {WORSE}; within limits if only one of these is so; does not hold if at
    some setting the share is farther off with every seed and the errors never differ by more; otherwise undecided.""",
    run=run,
    chapter=8,
    note="""Koren, Bell and Volinsky say that in real ratings much of what can be foretold is bias. How much it is in
    generated ratings is the generator's doing, so that this is not judged here.""",
)
