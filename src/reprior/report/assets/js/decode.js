// The numbers of the page: JSON, with arrays as base64 of their little-endian bytes.
window.Reprior = {};
(function (R) {
  "use strict";

  const TYPES = {
    f8: Float64Array, f4: Float32Array, i4: Int32Array, u4: Uint32Array, u2: Uint16Array, u1: Uint8Array,
  };

  function bytes(text) {
    if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
    const raw = atob(text);
    const result = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) result[i] = raw.charCodeAt(i);
    return result;
  }

  // Typed array of a packed one; null stays null. Decoded once.
  R.unpack = function (packed) {
    if (packed === null || packed === undefined) return null;
    if (!packed.array) {
      packed.array = new TYPES[packed.type](bytes(packed.data).buffer);
      packed.data = null;
    }
    return packed.array;
  };

  R.data = JSON.parse(document.getElementById("report-data").textContent);
  const classes = R.data.classes;
  R.names = classes.names;
  R.K = classes.names.length;
  for (const key of ["counts", "source", "target", "group", "cell"]) {
    classes[key] = R.unpack(classes[key]);
  }

  // How many entries of a sorted array are at most x.
  R.countUpTo = function (sorted, x) {
    let low = 0, high = sorted.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (sorted[middle] <= x) low = middle + 1; else high = middle;
    }
    return low;
  };

  // Classes from the most to the least frequent in training.
  R.byFrequency = Array.from({ length: R.K }, (_, k) => k)
    .sort((a, b) => classes.source[b] - classes.source[a] || a - b);
})(window.Reprior);
