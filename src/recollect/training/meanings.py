"""The meaning of every setting in a sentence: for docs/settings.md, the JSON Schema of recipes, and whoever asks.

A setting is looked up under the dataclass that declares it, under its module, then under those that it inherits from,
and at last in `SHARED`.
"""

from collections.abc import Iterator

SHARED = {
    # budgets
    "steps": "Training ends after so many updates of the weights; 1,000 where no budget is named.",
    "tokens": "Training ends after so many tokens (pictures, points, ratings: what the task counts); none: no limit.",
    "seconds": "Training ends after so many seconds of training time; none: no limit.",
    "flops": "Training ends after so many floating-point operations, as the model declares its cost; none: no limit.",
    # optimisation
    "lr": "Learning rate at its highest.",
    "optimizer": "AdamW; SGD (with `momentum`); or `asgd`, SGD whose weights are averaged over all steps.",
    "weight_decay": "Decay of matrices towards 0, decoupled in AdamW; biases and norms have none.",
    "beta1": "AdamW: decay of the running mean of gradients.",
    "beta2": "AdamW: decay of the running mean of squared gradients.",
    "momentum": "SGD: share of the last update that is added to the next.",
    "schedule": "Course of the learning rate after `warmup`: a half cosine down to `floor`, constant, falling with "
    "the inverse square root of the step, or multiplied by `plateau_factor` when validation stops improving.",
    "warmup": "Steps in which the learning rate rises linearly to `lr`; 0: none.",
    "floor": "Share of `lr` at which a cosine ends.",
    "plateau_factor": "What a plateau schedule multiplies the learning rate by.",
    "plateau_patience": "Evaluations without a better one that a plateau schedule waits for.",
    "clip": "Largest norm (or value, see `clip_by`) of the gradients; none: they are not clipped.",
    "clip_by": "Scale all gradients down together by their norm, or cut each number of them off at `clip`.",
    "accumulate": "Batches whose gradients are averaged for one step.",
    "precision": "Precision of the arithmetic in training; weights stay in float32.",
    "compile": "Compile the loss with torch.compile: some minutes at the start, faster steps after.",
    "graph": "Replay training steps from a CUDA graph (GPU only; not together with `exact`).",
    "ema": "Decay per step of an exponential average of the weights, which is evaluated and kept; none: no average.",
    "keep": "Weights of the last so many evaluations are kept, and their mean is tried at the end; none: not done.",
    "patience": "Evaluations without a better one after which training stops early; none: it never does.",
    "eval_every": "Steps between evaluations on the validation part.",
    "save_every": "Steps between checkpoints, from which a stopped run goes on.",
    "log_every": "Steps between lines of the log.",
    "seed": "Seed of the initial weights, the order of the data, dropout and all else that is drawn.",
    "exact": "The same bits from the same seed on a GPU too, by slower kernels.",
    # data
    "data": "Files or folders to train on, or the name of a known set; none: what the task has of its own.",
    "valid": "Files for validation; none: a part of the data is held out.",
    "test": "Files for the test; none: a part of the data, or what the known set has for it.",
    "tokenizer": "How text is cut into tokens: `chars`, `bytes` (of UTF-8), `words`, or `bpe` (byte pairs).",
    "vocab": "Largest size of the vocabulary of words or byte pairs; none: the tokenizer's own.",
    # tasks
    "batch": "Rows of a batch.",
    "eval_batch": "Rows of a batch in evaluations, which changes their speed and not their result.",
    "smoothing": "Label smoothing: share of the target's probability that is spread over all classes.",
    # models
    "hidden": "Units of a feed-forward network (or of an MLP's hidden layer); none: 4 times the width.",
    "activation": "Activation function of the feed-forward networks.",
    "norm": "Normalisation of residual blocks: LayerNorm, RMSNorm, BatchNorm or none.",
    "order": "Normalise before each layer (`pre`), or after adding the shortcut (`post`).",
    "max_positions": "Learned positions that exist: the longest sequence.",
    # layers
    "num_layers": "Layers inside one layer of the stack.",
    "weight_dropout": "Dropout on the recurrent weights, with one mask for all steps of a call.",
    "dilation": "Steps between the taps of a kernel.",
    "head_dim": "Width of one head; none: width / heads.",
    "project": "Learned projections make queries, keys and values; without them these are the inputs themselves.",
}
_BEAM = {
    "beam": "Prefixes that a beam search keeps when the run is measured or used; 1: greedy.",
    "length_penalty": "Exponent of the length that a hypothesis' log-probability is divided by; 0: none.",
}
_BODY = {
    "width": "Numbers in each step's vector inside the model; --params solves it for a number of parameters.",
    "layers": "Layers (residual blocks) in the stack.",
    "heads": "Heads of attention or TTT; they divide `width`.",
    "block": "Layers one after the other (`plain`), or each around a shortcut (`residual`); none: as the model has it.",
    "feed": "A feed-forward network follows each layer of a residual stack.",
    "positions": "How attention knows positions: added to the embeddings (`sinusoid`, `learned`), turned into queries "
    "and keys (`rotary`), or a penalty by distance (`alibi`); unset: as the model has it.",
    "bias": "Layers have biases; none: as each layer has it, and no biases in a Transformer.",
    "dropout": "Share of activations that training leaves out.",
    "input_dropout": "Dropout between the embedding and the first layer; none: as `dropout`.",
    "output_dropout": "Dropout after the last layer; none: as `dropout` in plain stacks, 0 in residual ones.",
    "variational": "One dropout mask for all steps of a chunk, where the default draws one for each step.",
    "taps": "Taps of a depthwise causal convolution before each layer of a residual stack; none: no convolution.",
}
_SOURCE = {
    "cell": "Recurrent cell of the encoder and decoder.",
    "width": "Numbers in each step's vector of encoder and decoder; --params solves it for a number of parameters.",
    "layers": "Layers of the decoder, and of the encoder where it has no number of its own.",
    "encoder": "Layer that reads the source: one of the registry or of RECOLLECT_LAYERS; none: as the model has it.",
    "embed": "Width of the embeddings; none: `width`.",
    "heads": "Heads of a Transformer's attention; they divide `width`.",
    "gist": "What `fixed` and `context` know of the source: the encoder's last state, its last output or the mean of "
    "its outputs; none: as in the papers.",
    "align": "Soft alignment before the cell reads the last word (Bahdanau), or after (Luong).",
    "score": "How queries and keys are compared; none: additive with `attend`, scaled with the others.",
    "alignment": "Weights from scores: softmax, the best place alone (`hard`), or softmax around a predicted place "
    "(`local`).",
    "window": "Places on each side of the centre that a local alignment sees; the others need none.",
    "kernel": "Taps of the convolutions of `conv`.",
    "positions": "How the Transformer and the convolutions know positions: added to the embeddings (`sinusoid`, "
    "`learned`), or turned into queries and keys (`rotary`).",
    "share": "Use the target's embedding as the output's weights too (`output`), one table for source, target and "
    "output (`all`, with a joint vocabulary), or neither.",
    "dropout": "Share of activations that training leaves out, of embeddings and between layers.",
    "inner_dropout": "A Transformer's dropout of attention weights and inside feed-forward networks; none: as "
    "`dropout`.",
    "both_ways": "The encoder of a recurrent model reads in both directions; none: where the decoder attends.",
    "reverse": "The encoder reads the source from its end.",
    "encoder_layers": "Layers of the encoder; none: as many as `layers`.",
}
_ENCODING = "Encoding of files that are no UTF-8, such as gb18030; none: such files are refused."
_LAYOUT = {
    "target": "Columns to forecast; none: all that have no other use.",
    "time": "Column that holds the time; none: found by its content, or there is none.",
    "header": "Whether the first row has names; `auto`: where it holds a word.",
    "id": "Column that names the series of each row, in a long table; none: each column is a series.",
    "known": "Columns that are known ahead of time, such as a weather forecast.",
    "past": "Columns of which only the past is known when a forecast is made.",
    "every": "Step that the rows are resampled to, such as 15min, 1h, 1d, 1w, 1mo or 1y (a number where times are "
    "numbers); none: the step that most rows have.",
    "aggregate": "What becomes of values with the same time, or in the same step of `every`: their mean, sum, or the "
    "last.",
    "zone": "Time zone of times that do not say theirs, such as Europe/Berlin; none: hours are counted as they stand.",
    "time_format": "How times are written, in the codes of strftime, such as %d.%m.%Y %H:%M; none: found out.",
    "decimal": "Decimal mark of the numbers; `auto`: the one by which every cell is a number.",
    "encoding": _ENCODING,
}
_SERIES = {
    "fill": "Missing values: a line between their neighbours, the last value held and never counted in the loss "
    "(`mask`), or an error.",
    "even": "Refuse tables that do not fill their grid of times; else missing rows are put in, and rows beside the "
    "grid are taken as even.",
    "calendar": "Tell the model the place of each row in the day, the week and the year, as far as the training part "
    "has two of them; none: where columns are known ahead and times are dates.",
    "period": "Rows of a season, for the seasonal baseline; none: estimated from the data.",
    "valid_share": "Share of the rows, before the test's, that is the validation part.",
    "test_share": "Share of the rows, at the end, that is the test part.",
    "draw": "Seed of the noisy sine, the data where none is named.",
    "whole": "Every part is all of the table, as when a run is measured on another one.",
    "lookback": "Rows of the past that a forecast is made from; none: 96, or an eighth of the training rows if less.",
    "horizon": "Rows ahead that are forecast.",
    "batch": "Windows of a batch.",
    "eval_batch": "Windows of a batch in evaluations, which changes their speed and not their result.",
    "loss": "Loss of point forecasts: squared, absolute or Huber's error.",
    "choose": "Metric by which validation picks the best weights.",
    "fit": "A linear autoregression is solved in closed form where its loss is the squared error (`auto`), always "
    "(`solve`), or trained by steps as all others.",
    "ridge": "Ridge penalty of the closed form.",
}
_PLAN = {
    "series": "Columns that are forecast, filled in from the data.",
    "ahead": "All of the horizon at once (`direct`), or a step at a time that is fed back (`recursive`).",
    "head": "Direct forecasts come from the last output, from all outputs, or from one step for each segment of the "
    "future (`parallel`); none: as the model has it.",
    "segment": "Points of the past in one step of the model (1: point by point; more: patches).",
    "stride": "Points from one segment to the next; none: `segment`, so that they do not overlap.",
    "channels": "Each series by itself with the same weights, or all series in one step.",
    "identity": "A learned vector for each series, where they are independent and the head is `parallel`.",
    "normalise": "What is taken from each window before the model and added back after: nothing, its last value, its "
    "mean, or mean and deviation (`window`); unset: `last`, and nothing where `ahead` is recursive.",
    "attention": "A Transformer's steps of the past see those before them, or all (`full`).",
    "entry": "Activation after the linear map that reads a segment.",
    "head_dropout": "Dropout before the linear map to the horizon.",
    "intervals": "Intervals from the errors on validation (`residual`), from a learned Gaussian, or from learned "
    "quantiles; calibrated on validation where it has enough windows, else not given.",
    "level": "Share of what comes that intervals should hold.",
    "interval_scale": "Errors on validation are measured in the scale of the data, or in deviations of the window that "
    "they followed (`window`), so that intervals widen where a series moves more.",
    "known_inputs": "Numbers that are known ahead of each point, filled in from the data.",
    "past_inputs": "Numbers that are known only so far, filled in from the data.",
    "own_covariates": "Each series has such numbers of its own, filled in from the data.",
    "effect": "Hidden units of the effect of what is known ahead, which is taken from the values before the model and "
    "added to its forecast; 0: a linear map; none: 32, and 0 for `ar`.",
    "paths": "Futures that a recursive Gaussian draws for its intervals.",
}
_TEXT = {
    "share": "Share of the text, at its end, held out for validation, where no files are named for it.",
    "letters": "Read only the letters a to z, made small, and blanks.",
    "encoding": _ENCODING,
    "context": "Tokens of a training window.",
    "windows": "Windows at random places, or one after the other with the state carried (`sequential`).",
    "bptt": "How far gradients go back in a window: all of it, or cut at segments of equal length (`truncated`), at "
    "random lengths, or at random with unbiased gradients.",
    "segment": "Tokens of a segment where `bptt` is not `full`; on average, where it is random. Memory falls with it.",
    "cut": "Probability of a cut at each boundary with unbiased `bptt`.",
    "vary": "Draw each window's length around `context`, as AWD-LSTM does (sequential windows only).",
    "eval_rule": "How validation reads the text: windows from an empty state, one pass with the state carried, or "
    "overlapping windows of which the later half counts (`sliding`).",
    "eval_tokens": "Evaluations read the first so many tokens of a part; none: all.",
}
_TRANSLATION = {
    "pair": "Languages, source first, such as en-de; none: as the data has it.",
    "columns": "Columns of a table that hold source and target, counted from 1.",
    "target_tokenizer": "How text of the target is cut into tokens, where not as `tokenizer` says; none: the same.",
    "joint": "One vocabulary for both languages.",
    "lower": "Make the text lower case.",
    "moses": "Normalise punctuation and split words as the scripts of Moses do, before tokenising.",
    "longest": "Training leaves out pairs with more tokens than this on a side.",
    "held_out": "Share of the pairs for validation, and as much for the test, where the data has no such parts.",
    "chain": "Join sentences to texts of up to so many source words; none: each by itself.",
    "count": "Pairs of numbers in words that are generated where no data is named.",
    "highest": "Largest of these numbers.",
    "encoding": _ENCODING,
    "batch": "Tokens of a batch, padding included.",
    "grain": "Lengths are padded to multiples of it, so that few shapes of batches occur (for `graph`).",
    "sampling": "Scheduled sampling: share of the decoder's inputs that are the model's own guesses.",
    "consistency": "Weight of R-Drop's loss between two draws of dropout; 0: none.",
    "choose": "What picks the best checkpoint: loss on the references, or BLEU of greedy translations.",
    "eval_sentences": "Sentences that are translated for `choose=bleu`; none: all.",
    "coverage": "Weight of the beam search's reward for attending to all of the source (Wu 2016); 0: none.",
    "ratio": "A translation has at most `ratio` times the source's tokens, and `extra` more.",
    "extra": "See `ratio`.",
} | _BEAM
_CAPTIONS = {
    "pixels": "Pictures are scaled to so many pixels a side; none: as the data's source has it.",
    "least": "Words seen fewer times in training are unknown; none: 1, and 5 where captions are many.",
    "longest": "Training leaves out captions with more words.",
    "held_out": "Share of a folder's pictures for validation, and as much for the test, where it has no lists.",
    "count": "Scenes that are rendered for training where no data is named.",
    "whole": "Every part is all of the folder, as when a run is measured on another one.",
    "varied": "Rendered scenes have grounds of any brightness, and colours as others choose them.",
    "ordered": "Rendered scenes are described once, the left or upper thing first; else each way round.",
    "batch": "Pictures of a batch.",
    "flip": "Mirror half of the training pictures; none: photographs are, rendered scenes are not.",
    "crop": "Largest share of a side that training cuts off; none: 0.15 for photographs, 0 for scenes.",
    "grain": "Lengths are padded to multiples of it, so that few shapes of batches occur (for `graph`).",
    "choose": "What picks the best checkpoint: loss on the references, BLEU-4 or exact matches of greedy captions.",
    "eval_images": "Pictures that are described for `choose` other than `nats`.",
    "extra": "Words of a caption at most.",
} | _BEAM
_FILMS = {name: _CAPTIONS[name] for name in ("least", "longest", "whole", "grain", "choose", "extra", *_BEAM)} | {
    "pixels": "Frames are scaled to so many pixels a side; none: as the data's source has it.",
    "frames": "Of a longer film so many frames are read, evenly spread.",
    "varied": "Rendered films are drawn as others might: on any ground, at any speed, with rests between the events.",
    "held_out": "Share of a folder's films for validation, and as much for the test.",
    "count": "Films that are rendered for training where no data is named.",
    "events": "Most events of a film that is rendered for training; those of the test have up to five.",
    "batch": "Films of a batch.",
    "eval_films": "Films that are described for `choose` other than `nats`.",
}
_EYE = {
    "align": "Look at the picture before the cell reads the last word, or after.",
    "channels": "Channels after the CNN's first convolution; doubled at every halving of the picture.",
    "blocks": "Residual blocks of the CNN at each size of the picture.",
    "self_attention": "A block of self-attention in the CNN, where its grid is twice as fine as the last one.",
    "encoder": "Layer, by its name, that reads the cells of the CNN's grid from both ends; none: the decoder alone.",
    "near": "Each cell of the CNN's grid sees what lies in and beside it, so that attention goes where a thing is.",
}
_FILM_MODEL = (
    {name: _SOURCE[name] for name in ("cell", "embed", "gist", "score", "share")}
    | _EYE
    | {
        "motion": "What the CNN sees beside each frame: nothing, its difference from the frame before, or that and how "
        "far edges moved to the right and down.",
        "pool": "How the cells of a frame become one vector: by weights of each cell's own, as their mean, by the "
        "largest of each number, or by learned attention.",
        "pool_heads": "Queries of `pool=attention`, each with its share of the vector.",
        "grid": "The memory and the decoder have each cell of the CNN's grid apart; else one vector of each frame.",
        "decoder": "What writes the caption, and how it reads what the memory left of the frames.",
        "decoder_layers": "Layers of the decoder.",
        "align": "Look at the frames before the cell reads the last word, or after.",
    }
)
del _FILM_MODEL["encoder"]
_LABELS = {
    "share": "Share of the texts, by their hash, held out for validation, where no files are named for it.",
    "longest": "Tokens of a text, or frames of a recording, that are read; the rest is left out.",
    "label_column": "Column of a table that holds the label, by its name or number; none: found by its content.",
    "text_column": "Column of a table that holds the text, or the name of a recording, by its name or number; none: "
    "found by its content.",
    "speaker_column": "Column of a table that holds the speaker of a recording; none: one with such a name, if any.",
    "pattern": "What names of recordings tell, such as `{label}_{speaker}_{take}`; none: the folder is the label.",
    "test_speaker": "Speaker whose recordings are the test part, and no others; none: no speaker is left out.",
    "valid_speaker": "Speaker whose recordings are the validation part, and no others; none: see `share`.",
    "header": "Whether a table's first row has names; none: found by its content.",
    "step": "What a step of an image is: a pixel or a row.",
    "permute": "Seed of one order of the pixels for all images; none: their own order.",
    "encoding": _ENCODING,
    "bucket": "Batches' worth of rows that are sorted by length before they are cut into batches.",
    "choose": "Figure by which validation picks the best weights: share of errors, or loss.",
    "eval_rows": "Evaluations read the first so many rows of a part; none: all.",
    "length": "Length of a training row, for the model's cost; none: the median, filled in by training.",
}
_TRANSCRIBE = {
    "join": "Joined strings have 1 to so many recordings; none: 5 for tones and fsdd, 1 (no joining) for a folder.",
    "longer": "The test has strings of so many times `join` recordings too.",
    "gap": "Longest silence before, between and after the recordings of a string, in seconds.",
    "count": "Strings that are joined for validation, and as many for the test.",
    "speaker": "Who is heard in the test alone; none: the test has everybody.",
    "letters": "Letters that the generated tones spell.",
    "takes": "Recordings of each letter that are generated.",
    "held_out": "Share of a folder's recordings for validation, and as much for the test, where no table says it.",
    "whole": "Every part is all of the folder, as when a run is measured on another one.",
    "lower": "Capital letters of the transcripts are made small.",
    "longest": "Training leaves out recordings of more seconds.",
    "sample_rate": "Samples a second, to which recordings are converted.",
    "frame": "Milliseconds of sound that a frame covers.",
    "hop": "Milliseconds from one frame to the next.",
    "bands": "Bands of a frame, of equal width on the mel scale.",
    "stack": "Frames side by side that are a step of the model.",
    "batch": "Recordings, or strings of them, of a batch.",
    "bucket": "Batches' worth of recordings that are sorted by length before they are cut into batches.",
    "choose": "What picks the best checkpoint: character errors of greedy texts, or the loss.",
    "eval_rows": "Evaluations while training read the first so many recordings of a part; none: all.",
    "ratio": "A text has at most `ratio` characters for each step of the sound, and `extra` more.",
    "extra": "See `ratio`.",
    "steps_each": "Steps of a training row, for the model's cost; none: the median, filled in by training.",
} | _BEAM
_FRAMES = {
    "sample_rate": "Samples a second at which recordings are read; others are resampled.",
    "frame": "Milliseconds of sound that one frame covers.",
    "hop": "Milliseconds from the start of one frame to that of the next.",
    "bands": "Bands of a frame, of equal width on the mel scale.",
    "lowest": "Hz at which the lowest band begins.",
    "highest": "Hz at which the highest band ends; none: half the sampling rate.",
    "level": "A recording's mean, over time and bands, is taken from its frames, so that its loudness does not count.",
    "scale_bands": "Each band has mean 0 and deviation 1 over the training part; else frames are logarithms of power.",
}
_AUGMENT = {
    "tempo": "Training rows are up to so much faster or slower (0.1: 10 %).",
    "warp": "The bands of training rows are stretched or squeezed by up to so much, as by another speaker's throat.",
    "gain": "Training rows are up to so many decibels louder or softer.",
    "tilt": "Training rows have up to so many decibels more or less at either end of the bands.",
    "response": "Training rows have up to so many decibels more or less at each of five places among the bands, and "
    "between them what a line gives, as by another microphone.",
    "noise": "Decibels below a training row's mean power at which noise is added at most (at least: 30 dB less); none: "
    "no noise.",
    "shift": "Training rows begin up to so many milliseconds later, after silence, or earlier, cut off.",
    "time_masks": "Stretches of a training row, up to so many, become the mean of training.",
    "time_mask": "Longest of these, in frames; never more than a quarter of the row.",
    "band_masks": "Groups of bands of a training row, up to so many, become the mean of training.",
    "band_mask": "Largest of these, in bands.",
}
_RATINGS = {
    "share": "Share of the ratings, by their hash, for validation and as much for the test, where no files are named.",
    "features": "File with the features of each item, or `truth` for those of generated ratings; none: learned.",
    "titles": "File with the title of each item; none: items go by their names in the data.",
    "users": "Users of generated ratings.",
    "items": "Items of generated ratings.",
    "ratings": "Ratings that are generated.",
    "rank": "True features behind generated ratings.",
    "true_bias": "Standard deviation of the true biases of generated ratings.",
    "spread": "Standard deviation of the true dot products of generated ratings.",
    "noise": "Standard deviation of what is added to each generated rating.",
    "data_seed": "Seed of generated ratings.",
    "batch": "Ratings of a batch.",
    "eval_batch": "Ratings of a batch in evaluations, which changes their speed and not their result.",
    "item_damping": "Average ratings that the baseline mixes into each item's bias.",
    "user_damping": "Average ratings that the baseline mixes into each user's bias.",
}
_TTT = {
    "mini_batch": "Steps of an inner mini-batch, whose gradients are all taken at the same weights; none: batch "
    "gradient descent from the initial weights.",
    "rate": "Inner learning rate, before its learned factor.",
    "learn_rate": "Each step's inner learning rate has a learned factor.",
    "learn_start": "The inner model's initial weights are learned; else they are 0.",
    "average": "A learned factor for each place in the mini-batch, which starts at the mean of the gradients.",
    "out_norm": "Normalise the output before its projection.",
    "rotary": "Turn queries and keys by their place in the mini-batch.",
    "expand": "Width of the inner MLP's hidden layer, as a multiple of the head's.",
}

MEANINGS: dict[str, dict[str, str]] = {
    "tasks.text": _TEXT,
    "tasks.translation": _TRANSLATION,
    "tasks.series": _SERIES,
    "tasks.series.tables.layout": _LAYOUT,
    "tasks.captions": _CAPTIONS,
    "tasks.labels": _LABELS,
    "data.sound": _FRAMES | _AUGMENT,
    "tasks.ratings": _RATINGS,
    "tasks.transcribe": _TRANSCRIBE,
    "models.ctc": {
        "encoder": "Layer, by its name, that reads the frames.",
        "both_ways": "Two stacks of layers read the sound, one of them from its end.",
    },
    "tasks.memory": {"eval_rows": "Rows of validation and of the test, at each value of the dial."},
    "tasks.memory.generator": {
        "vary": "Draw the dial anew for each training batch, from its least value up to the one set.",
        "reach": "Largest multiple of the dial's value at which the test is measured, by doubling.",
    },
    "tasks.memory.data.Copy": {
        "distance": "Steps from the symbols to the request to repeat them (the dial).",
        "load": "Symbols to repeat.",
        "all_steps": "The loss counts all steps, as in the papers; else only those of the answers.",
    },
    "tasks.memory.data.Adding": {"length": "Numbers in a row (the dial)."},
    "tasks.memory.data.Recall": {
        "length": "Steps of a row.",
        "load": "Pairs of a key and a value (the dial).",
        "vocab": "Size of the vocabulary: half keys, half values.",
        "power": "How far from the pairs the questions stand: the smaller, the nearer most of them.",
        "filler": "What stands between the questions: token 0, or random tokens.",
        "rounds": "How often each key is given, each time with another value; the last one counts.",
    },
    "tasks.memory.data.Parity": {"length": "Bits of a row (the dial)."},
    "tasks.memory.data.Gap": {
        "distance": "Words between the facts and the questions (the dial).",
        "load": "Persons with a fact and a question each.",
        "distractors": "Sentences between them that name another country.",
    },
    "tasks.memory.data.Order": {
        "length": "Numbers of a row (the dial).",
        "vocab": "How many numbers there are to choose from.",
        "shuffle": "What a row that does not rise is: in any order, or with two neighbours exchanged.",
    },
    "tasks.memory.sentences.Clouds": {"distance": "Words of other sentences before the last one (the dial)."},
    "tasks.memory.sentences.Agreement": {"distance": "Phrases between the noun and its verb (the dial)."},
    "tasks.memory.sentences.Nested": {"depth": "Clauses inside one another (the dial)."},
    "models.body": _BODY,
    "models.language": {
        "embed": "Width of the embedding; none: `width`.",
        "tie": "The output's weights are those of the embedding.",
        "head_bias": "The output has a bias for each token.",
        "word_dropout": "Share of the vocabulary's embeddings that training leaves out, whole tokens at a time.",
    },
    "models.classifier": {
        "spread": "Standard deviation of the tokens' initial vectors.",
        "both_ways": "Two stacks of layers read each row, one of them from its end.",
        "pool": "What the answer is read from: the last output, the mean, an attention-weighted mean, or each step's.",
    },
    "models.ngram": {"order": "Longest n-gram, in tokens."},
    "models.seq2seq": _SOURCE,
    "tasks.captions.model": _EYE,
    "tasks.captions.films": _FILMS,
    "tasks.captions.films.model": _FILM_MODEL,
    "tasks.ratings.model": {
        "dim": "Width of the users' and items' vectors; 0: biases alone.",
        "bias": "Users and items have a bias each.",
        "scale": "Standard deviation of the initial vectors.",
    },
    "tasks.series.plan": _PLAN,
    "layers.window": {
        "tau": "Inputs that are seen, the newest included; 8 in the models `ar` and `mlp`.",
        "map": "Linear map of them, or an MLP.",
    },
    "layers.rnn": {"nonlinearity": "Activation function of the recurrence."},
    "layers.lstm": {"forget_bias": "Initial bias of the forget gate; 1 forgets less at the start."},
    "layers.gru": {"reset": "The reset gate acts after the recurrent product (as in torch), or before it (Cho 2014)."},
    "layers.scanned": {
        "candidate": "The new value is linear in the input, or passed through a function that makes it positive.",
        "forget_bias": "Added to what keeps the state, and not learned; above 0 the layer forgets less.",
    },
    "layers.minlstm": {"normalise": "Divide the forget and the input gate by their sum."},
    "layers.tcn": {
        "kernel": "Taps of each of a block's two convolutions.",
        "dilation": "Steps between taps; by default 1, 2, 4, … from layer to layer.",
        "start": "Initial weights of convolutions: torch's, or He's, which are 2.4 times as large.",
    },
    "layers.attend": {
        "kv_heads": "Heads of keys and values, fewer than those of queries (grouped queries); none: as many.",
        "score": "How queries and keys are compared: scaled dot product, dot product, small MLP, or bilinear form.",
        "alignment": "Weights from scores: softmax, the best key alone (`hard`), or softmax times a bell around the "
        "query's own place (`local`).",
        "window": "Newest positions that a query sees; none: all. With `local`: half of the bell's width.",
    },
    "layers.attention": {"masked": "The causal mask; without it a step sees the future, which breaks two laws."},
    "layers.linear_attention": {
        "feature": "Feature map of queries and keys: elu + 1, or none.",
        "normalise": "Divide by the sum of the weights; needs positive features.",
    },
    "layers.matrix": {
        "head_dim": "Width of the keys of one head; none: width / heads.",
        "value_dim": "Width of the values of one head; none: width / heads.",
        "forget": "Decay of the matrix before each write: none, one fixed rate for each head, a rate a step (`step`), "
        "or a rate a step and channel of the keys (`channel`).",
        "signed": "Decays lie in (−1, 1) instead of (0, 1).",
        "rank": "Rank of the map from the input to the rates of the channels; none: full.",
        "write": "Add key and value to the matrix, or first take away what the matrix holds at the key (`delta`).",
        "beta": "Largest strength of a write, which the input decides; none: every write has the strength 1.",
        "tied": "The step that decides the decay is the strength of the write too, as in Mamba-2.",
        "feature": "Feature map of queries and keys: none, elu + 1, or SiLU.",
        "unit": "Queries and keys are scaled to the length 1.",
        "normalise": "Divide by the sum of the weights; needs positive features.",
        "rotary": "Queries and keys are turned by their place.",
        "shared": "All heads have one key and one query.",
        "out_norm": "RMSNorm of what each head reads.",
        "out_gate": "What was read is multiplied by a gate, SiLU of a map of the input.",
        "norm_last": "The norm comes behind the gate and is one of all heads together, as in Mamba-2.",
        "skip": "The value itself, times a learned number for each head, is added to what is read.",
    },
    "layers.ttt": _TTT,
    "layers.conv": {
        "kernel": "Taps of the convolution.",
        "depthwise": "Each channel is convolved by itself.",
    },
    "layers.gated_conv": {"kernel": "Taps of the convolution."},
}


def meaning(kind: type, name: str) -> str | None:
    """What a setting of a dataclass means; None for those from outside the package without an entry."""
    return next((MEANINGS.get(home, SHARED)[name] for home in places(kind, name)), None)


def places(kind: type, name: str) -> Iterator[str]:
    """The homes that say what a setting of `kind` means, the nearest first; "" is `SHARED`."""
    if kind.__module__.partition(".")[0] != __name__.partition(".")[0]:
        return
    for base in kind.__mro__:
        module = base.__module__.partition(".")[2].removesuffix(".settings")
        yield from (home for home in (f"{module}.{base.__qualname__}", module) if name in MEANINGS.get(home, {}))
    if name in SHARED:
        yield ""
