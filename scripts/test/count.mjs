// How many tests passed and failed, read from what a suite printed. A test runner that dies, or finds nothing to run,
// has failed, whatever it printed.

/** `{ passed, failed, skipped, reason }` of a suite that has ended. */
export function verdict({ kind, maySkip = false }, { ok, code, timedOut, lines }) {
  const { passed, failed, skipped = 0 } = counters[kind](lines, ok);
  const told = (failed, reason) => ({ passed, failed, skipped, reason });
  if (timedOut) return told(failed + 1, 'it took too long and was killed');
  if (!ok && failed === 0) return told(1, `it ended with code ${code}`);
  if (passed + failed === 0) return told(1, 'no test ran');
  if (skipped > 0 && !maySkip) return told(1, `${skipped} skipped, which nobody has asked for`);
  return told(failed, '');
}

const shownLines = 40;

/** What a suite that has failed says of it: from where its runner lists the failures, else its last lines. */
export function failures({ kind }, { lines }) {
  const from = lines.findIndex((line) => headings[kind]?.test(line));
  return from < 0 ? lines.slice(-shownLines) : lines.slice(from, from + shownLines);
}

const headings = { node: /^✖ failing tests:$/, cargo: /^failures:$/ };

const counters = {
  check: (_lines, ok) => ({ passed: ok ? 1 : 0, failed: ok ? 0 : 1 }),

  // Once for each test binary: "test result: ok. 12 passed; 0 failed; …"
  cargo: (lines) => {
    const results = lines
      .map((line) => line.match(/^test result: \S+ (\d+) passed; (\d+) failed;/))
      .filter(Boolean);
    const sum = (group) => results.reduce((total, result) => total + Number(result[group]), 0);
    return { passed: sum(1), failed: sum(2) };
  },

  // At the very end: "ℹ pass 12". A test that is cancelled did not pass. A `describe` that throws before its tests are there is in none of these
  // numbers, and Node ends with code 0: it stands in the list of failures alone.
  node: (lines) => {
    const last = (what) =>
      Number(lines.findLast((line) => new RegExp(`^ℹ ${what} \\d+$`).test(line))?.split(' ')[2] ?? 0);
    const from = lines.findLastIndex((line) => headings.node.test(line));
    const listed = from < 0 ? 0 : lines.slice(from).filter((line) => line.startsWith('test at ')).length;
    const failed = Math.max(last('fail') + last('cancelled'), listed);
    return { passed: last('pass'), failed, skipped: last('skipped') };
  },
};
