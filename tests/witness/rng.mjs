// Chance with a seed: the same seed makes the same clients and the same troubles. Who meets whom is left to the runtime.

import { dice } from '../../crates/once-testing/kill/kill.mjs';

export function rng(seed) {
  const roll = dice(seed);
  const between = (from, to) => from + Math.floor(roll() * (to - from + 1));
  return {
    chance: (share) => roll() < share,
    between,
    oneOf: (list) => list[between(0, list.length - 1)],
    /** One of a table of weights. */
    weighted(weights) {
      let left = roll() * Object.values(weights).reduce((sum, weight) => sum + weight, 0);
      return Object.keys(weights).find((name) => (left -= weights[name]) < 0) ?? Object.keys(weights)[0];
    },
    uuid: () =>
      [8, 4, 4, 4, 12]
        .map((length) => Array.from({ length }, () => between(0, 15).toString(16)).join(''))
        .join('-'),
    /** Chance of its own, so that nobody's depends on when others ask. */
    fork: () => rng(between(0, 2 ** 32 - 1)),
  };
}
