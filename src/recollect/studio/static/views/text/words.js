// What each picture shows, in a sentence for a learner, by the name of the tensor.

import { t } from "../../lib/messages.js";

const KNOWN = {
  h: () => [t("Hidden state h"), t("Each row is a unit, each column a character. The whole text so far is squeezed into this one column of numbers.")],
  c: () => [t("Cell state c"), t("The long memory of an LSTM: a row that keeps its colour over many characters is remembering something.")],
  forget: () => [t("Forget gate"), t("How much of the old state is kept at each character: 1 keeps everything, 0 wipes it.")],
  input: () => [t("Input gate"), t("How much of what is new is written into the state at each character.")],
  output: () => [t("Output gate"), t("How much of the cell is shown to the rest of the network at each character.")],
  candidate: () => [t("Candidate"), t("What would be written into the state if the gate were wide open.")],
  reset: () => [t("Reset gate"), t("How much of the old state may take part in the new candidate.")],
  keep: () => [t("Keep gate"), t("How much of the old state stays: 1 keeps it, 0 takes the candidate in its place.")],
  update: () => [t("Update gate"), t("How much of the candidate replaces the old state.")],
  slope: () => [t("Slope of the activation"), t("How well a gradient passes back through each unit: dark columns let it through, pale ones stop it.")],
  weights: () => [t("Attention weights"), t("Each row is a head. The darker a character, the more the model looks back at it to foretell the next one.")],
  keys: () => [t("Cache: keys"), t("One column for each character, never altered: this memory grows with the text, and nothing is squeezed.")],
  values: () => [t("Cache: values"), t("What each character leaves to be read later, when its key is found.")],
  sums: () => [t("Matrix memory S"), t("Each head keeps one matrix. Every character adds a pair of key and value to it, and the query reads it like a table.")],
  total: () => [t("Sum of keys"), t("By this sum what is read is normalised.")],
  "model.weights.0": () => [t("Weights W of the inner model"), t("Here the state is itself a small model: reading the text trains it, a gradient step at a time.")],
  "model.weights.1": () => [t("Weights of the second inner layer"), t("The inner model has two layers; this is the upper one.")],
  "model.biases.0": () => [t("Biases of the inner model"), t("They are trained while it reads, like the weights.")],
  "model.biases.1": () => [t("Biases of the second inner layer"), t("They are trained while it reads, like the weights.")],
  "gradient.weights.0": () => [t("Gradient gathered so far"), t("The inner steps since the last boundary, waiting to be taken together.")],
  "gradient.weights.1": () => [t("Gradient of the second inner layer"), t("The inner steps since the last boundary, waiting to be taken together.")],
  "gradient.biases.0": () => [t("Gradient of the biases"), t("The inner steps since the last boundary, waiting to be taken together.")],
  "gradient.biases.1": () => [t("Gradient of the upper biases"), t("The inner steps since the last boundary, waiting to be taken together.")],
  loss: () => [t("Inner loss"), t("How wrong the inner model is about each character, head by head, before it learns from it.")],
  rate: () => [t("Inner learning rate"), t("How large a step the inner model takes for this character.")],
  window: () => [t("Window of inputs"), t("All that this model sees: the last few characters as vectors. What has left the window is forgotten without a trace.")],
  "first.window": () => [t("Window of the first convolution"), t("The inputs that the first convolution of this block still sees.")],
  "second.window": () => [t("Window of the second convolution"), t("The inputs that the second convolution of this block still sees; each of them has seen several characters itself.")],
  continuations: () => [t("Counted continuations"), t("How many different characters ever followed the last 1, 2, 3 … characters in the training text. Pale: that context never occurred, so a shorter one is asked.")],
  written: () => [t("Share rewritten"), t("How much of each head's matrix this character changed.")],
  size: () => [t("Size of S"), t("The norm of each head's matrix: how full the memory is.")],
  read: () => [t("What is read"), t("What the query of this character finds in the memory.")],
  query: () => [t("Query"), t("What this character asks the memory for.")],
  strength: () => [t("Writing strength"), t("How firmly this character overwrites what its key held before.")],
};

const OTHER = () => t("Numbers of this layer, one column for each character.");

export function describePicture(picture, levels) {
  const [title, sentence] = KNOWN[picture.name] ? KNOWN[picture.name]() : [picture.name, OTHER()];
  const place = levels > 1 ? t("{title}, layer {level}", { title, level: picture.level }) : title;
  const cut = picture.kind === "units" || picture.kind === "cache" ? picture.shape[0] < picture.whole : false;
  return { title: place, sentence: cut ? `${sentence} ${t("Shown are {count} of {whole}.", { count: picture.shape[0], whole: picture.whole })}` : sentence };
}

const MODELS = {
  ngram: () => [t("n-gram"), t("counts")],
  ar: () => [t("Autoregression"), t("a window, weighed")],
  mlp: () => [t("Window MLP"), t("a window of characters")],
  rnn: () => [t("RNN"), t("one state, overwritten")],
  lstm: () => [t("LSTM"), t("a state behind gates")],
  gru: () => [t("GRU"), t("a state behind two gates")],
  mingru: () => [t("minGRU"), t("gates that look at the input alone")],
  minlstm: () => [t("minLSTM"), t("gates that look at the input alone")],
  tcn: () => [t("Convolution"), t("windows upon windows")],
  transformer: () => [t("Transformer"), t("keeps everything, looks back")],
  "linear-transformer": () => [t("Linear attention"), t("a matrix that is added to")],
  retention: () => [t("Retention"), t("a matrix that fades")],
  gla: () => [t("Gated linear attention"), t("a matrix behind gates")],
  mamba2: () => [t("Mamba-2"), t("a matrix that decides what to forget")],
  delta: () => [t("Delta rule"), t("a matrix that corrects itself")],
  "gated-delta": () => [t("Gated delta rule"), t("corrects itself, and forgets")],
  "ttt-linear": () => [t("TTT-Linear"), t("a state that learns while it reads")],
  "ttt-mlp": () => [t("TTT-MLP"), t("a small network learns while it reads")],
};

export const describeModel = (model) => (MODELS[model] ? MODELS[model]() : [model, ""]);

export const visible = (letter) => (letter === " " ? "␣" : letter === "\n" ? "↵" : letter === "\t" ? "⇥" : letter);
