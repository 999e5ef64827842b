// Chance with a seed: the same seed makes the same clients and the same troubles. Who meets whom is left to the runtime.

/** A number for each call, from 0 to 1 (mulberry32). */
export function dice(seed) {
  let state = seed >>> 0;
  const roll = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const between = (from, to) => from + Math.floor(roll() * (to - from + 1));
  const oneOf = (list) => list[between(0, list.length - 1)];
  return {
    chance: (share) => roll() < share,
    between,
    oneOf,
    /** One of a table of weights. */
    weighted(weights) {
      let left = roll() * Object.values(weights).reduce((sum, weight) => sum + weight, 0);
      return Object.keys(weights).find((name) => (left -= weights[name]) < 0) ?? Object.keys(weights)[0];
    },
    uuid: () =>
      `${[8, 4, 4, 4, 12].map((length) => Array.from({ length }, () => between(0, 15).toString(16)).join('')).join('-')}`,
    /** Dice of their own, so that nobody's throws depend on when others throw. */
    fork: () => dice(between(0, 2 ** 32 - 1)),
  };
}
