// Calls the simulator over a service binding, as the payments Worker does, and tells what it saw.
export default {
  async fetch(request, env) {
    const { url, init, timeout_ms } = await request.json();
    let stage = 'fetch';
    try {
      const signal = timeout_ms ? AbortSignal.timeout(timeout_ms) : undefined;
      const response = await env.SIMULATOR.fetch(url, { ...init, signal });
      stage = 'body';
      return Response.json({ status: response.status, body: await response.text() });
    } catch (error) {
      return Response.json({ threw: String(error), name: error.name, stage });
    }
  },
};
