"""What the words on a page mean, one short sentence each, for readers who meet them for the first time."""

SEED = (
    "A <em>seed</em> is the number that all chance in a run is drawn from (first weights, order of the data): the same "
    "model with another seed shows how much of a result is luck."
)
RANGE = "A range goes from the least to the greatest value over seeds."
BASELINE = "A <em>baseline</em> (dashed) is what a plain rule without a network gets by the same measure."
PARAMETERS = "<em>Parameters</em> are the numbers that learning adjusts."
TOKEN = (
    "A <em>token</em> is one unit of a sequence: a letter, a word or a symbol. Counted are those that were read to "
    "learn from, and of a translation the words that were asked for."
)
BEST = "A result is that of the weights that did best on validation on the way, measured on the same data."
FLOP = "A <em>FLOP</em> is one addition or multiplication of two numbers."
STATE = "The <em>state</em> is all that a model keeps of what it has read."
VALIDATION = "<em>Validation</em> data are kept apart and never learned from."
CONTEXT = "The <em>context</em> is what the model has read so far in its window."
LOSS = "The <em>loss</em> says how far a model's answer is from the right one: lower is better."
DECLARED = "Both are declared by each layer and held to what is measured by the package's tests."
GRADIENT = (
    "A <em>gradient</em> says how much the last output would move if an input so many steps earlier were moved a "
    "little; where it fades, the model can neither use that input nor learn to."
)
LOG = "Along a scale in powers of ten, equal steps are equal ratios."
RUNG = "A <em>rung</em> of the ladder is the one before it with a single change."
CARD = (
    "Every model of the lineage is a <em>state</em>, a rule that <em>updates</em> it with the next input, and a rule "
    "that <em>reads</em> an output from it. <em>Grows</em> says whether the state gets larger as more is read; the "
    "<em>fast form</em> is how a whole sequence is computed at once, with the same result."
)
UNFAIR = "An entry marked † did not run on the same terms as the others: its place should not be compared."
POSITIONS = (
    "A model that makes use of what it has read gets better further on; where its curve lies flat, more context no "
    "longer helps."
)
COSTS = (
    "Where a line rises, a longer text costs more; where the state lies flat, the model must fit all that it has read "
    "into the same room."
)
SOURCE = "Here the source is as long as what is written, and reading it is part of the work."

REASONS = {
    "size": "its number of parameters is off by more than a quarter from what was asked for",
    "memory": "it ran out of memory",
    "tokenizer": "it read another kind of tokens",
    "data": "it learned from other data",
    "split": "it was measured on other data",
    "batch": "its batches had another size",
}
METRICS = {
    "accuracy": "the share of answers that are right",
    "error": "the share of answers that are wrong",
    "bleu": "from 0 to 100, how many word sequences the translation shares with a person's",
    "chrf": "from 0 to 100, how many letter sequences the translation shares with a person's",
    "cider": "how much the caption shares with those that people wrote, rare words counting more",
    "nats_per_token": "how surprised the model is by the next token, on average; "
    "its exponential, the perplexity, is among how many equally likely tokens it seems to choose",
    "bits_per_byte": "how many bits the model would need to write down each byte of the text",
    "perplexity": "among how many equally likely tokens the model seems to choose",
    "mse": "the mean squared error",
    "rmse": "the root of the mean squared error, in the unit of what is foretold",
    "mae": "the mean absolute error, in the unit of what is foretold",
    "loss": "how far the model's answers are from the right ones",
}
STEPS = "steps: training ends after the same number for all; sizes are those of each"
EQUAL = {
    "params": "size: about as many parameters, and training ends after the same number of steps for all",
    "tokens": "data: training ends when each has learned from the same number of tokens",
    "flops": "work: training ends when each has spent the same number of FLOPs",
    "seconds": "time: training ends after the same number of seconds for all",
}
TERMS = {
    "equal": "what is equal",
    "params": "parameters",
    "steps": "steps",
    "batch": "batch",
    "budget": "budget",
    "seeds": "seeds",
    "context": "context",
    "data": "data",
    "tokenizer": "tokens are",
    "rates": "learning rates",
    "device": "device",
    "settings": "other settings",
}
