// What a lane has seen of a line: a column for each token, kept as far as text, picture and edits are the same.

export class Columns {
  constructor() {
    this.clear();
  }

  clear() {
    this.text = "";
    this.key = null;
    this.marks = "[]";
    this.ends = [];
    this.surprise = [];
    this.entropy = [];
    this.likeliest = [];
    this.shares = [];
    this.values = [];
    this.now = null; // {at, data, shape}: a picture of one position
    this.names = {};
    this.about = null;
  }

  get length() {
    return this.ends.length;
  }

  // How many columns hold for a text, with a picture and edits
  have(text, key, edits, whole) {
    if (key !== this.key) return 0;
    let same = 0;
    while (same < text.length && same < this.text.length && text[same] === this.text[same]) same += 1;
    const marks = JSON.stringify(edits);
    if (marks !== this.marks) {
      const before = JSON.parse(this.marks);
      const changed = [...edits, ...before].filter((each) => !(contains(edits, each) && contains(before, each)));
      same = Math.min(same, ...changed.map((each) => each.at));
    }
    let count = this.ends.length;
    while (count && this.ends[count - 1] > same) count -= 1;
    return whole ? count : Math.max(0, count - 2);
  }

  take(frame, text, edits) {
    const rows = frame.values ? frame.values.shape[1] : 0;
    const start = frame.start;
    for (const part of [this.ends, this.surprise, this.entropy, this.likeliest, this.shares, this.values]) part.length = Math.min(part.length, start);
    const count = frame.ends.shape[0];
    const best = count ? frame.likeliest.shape[1] : 0;
    for (let i = 0; i < count; i++) {
      this.ends.push(frame.ends.data[i]);
      this.surprise.push(frame.surprise.data[i]);
      this.entropy.push(frame.entropy.data[i]);
      this.likeliest.push(frame.likeliest.data.subarray(i * best, (i + 1) * best));
      this.shares.push(frame.shares.data.subarray(i * best, (i + 1) * best));
      if (rows) this.values.push(frame.values.data.subarray(i * rows, (i + 1) * rows));
    }
    Object.assign(this.names, frame.names);
    this.now = frame.now ? { at: frame.position, ...frame.now } : null;
    this.about = frame;
    this.text = text;
    this.key = frame.key;
    this.marks = JSON.stringify(edits);
  }

  // The column whose token ends at or after a character; −1 before the first
  at(character) {
    let low = 0;
    let high = this.ends.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.ends[middle] < character) low = middle + 1;
      else high = middle;
    }
    return character <= 0 || !this.ends.length ? -1 : Math.min(low, this.ends.length - 1);
  }
}

const contains = (some, one) => some.some((each) => JSON.stringify(each) === JSON.stringify(one));
