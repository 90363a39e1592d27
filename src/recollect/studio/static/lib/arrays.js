// Arrays of an answer, as studio/arrays.py packs them: {about…, name: {data, shape}, …}

const KINDS = { float32: Float32Array, uint8: Uint8Array, uint16: Uint16Array, int32: Int32Array, float16: Uint16Array };
let halves = null;

// All 65,536 numbers of 16 bits, as float32
function table() {
  const found = new Float32Array(65536);
  for (let bits = 0; bits < 65536; bits++) {
    const exponent = (bits >> 10) & 31;
    const fraction = bits & 1023;
    const size = exponent === 0 ? fraction * 2 ** -24 : exponent === 31 ? (fraction ? NaN : Infinity) : (1 + fraction / 1024) * 2 ** (exponent - 15);
    found[bits] = bits & 0x8000 ? -size : size;
  }
  return found;
}

export function unpack(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const { arrays, ...about } = head;
  for (const { name, type, shape, at } of arrays) {
    const count = shape.reduce((a, b) => a * b, 1);
    let data = new KINDS[type](buffer, 4 + length + at, count);
    if (type === "float16") {
      halves ||= table();
      data = Float32Array.from(data, (bits) => halves[bits]);
    }
    about[name] = { data, shape };
  }
  return about;
}
