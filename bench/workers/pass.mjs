// The least that a Worker in front of a shop can do: it passes everything on.
export default {
  fetch(request, env) {
    const { pathname, search } = new URL(request.url);
    return fetch(new Request(env.ORIGIN + pathname + search, request), { redirect: 'manual' });
  },
};
