// What several files of one process use together (together.mjs): a start takes seconds, so it is made once for all that ask for the same.

/** `start` for those who share: whoever asks for the same gets the same, and the last who closes it closes it. */
export function sharing(start) {
  const running = new Map();
  return async (options = {}) => {
    const settings = JSON.stringify(options);
    const known = running.get(settings) ?? { users: 0, started: start(options) };
    running.set(settings, known);
    known.users += 1;
    const shared = await known.started;
    const close = async () => {
      known.users -= 1;
      if (known.users > 0) return;
      running.delete(settings);
      await shared.close();
    };
    return { ...shared, close };
  };
}
