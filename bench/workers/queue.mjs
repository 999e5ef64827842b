// What Queues is between a producer and its consumer: messages are given on in batches, as wrangler.toml has it, and again when the
// consumer says so. They are kept in memory. `GET /stats` says how many came, how often they were delivered, how many wait for that, and how many are still
// to be done: a batch ends with all that its handler has left behind, later than the handler.
import { DurableObject } from 'cloudflare:workers';

export default {
  fetch: (request, env) => env.BROKER.getByName('it').fetch(request),
};

export class Broker extends DurableObject {
  #waiting = [];
  #timer;
  #stats = { messages: 0, deliveries: 0, waiting: 0, open: 0 };

  async fetch(request) {
    const { pathname } = new URL(request.url);
    if (pathname === '/stats') return Response.json(this.#stats);
    if (pathname === '/batch') {
      const { messages } = await request.json();
      for (const { body, contentType, delaySecs } of messages)
        this.#take(Uint8Array.fromBase64(body).buffer, contentType, delaySecs);
    } else {
      const delay = request.headers.get('x-msg-delay-secs');
      this.#take(await request.arrayBuffer(), request.headers.get('x-msg-fmt'), Number(delay));
    }
    return Response.json({
      metadata: { metrics: { backlogCount: 0, backlogBytes: 0, oldestMessageTimestamp: 0 } },
    });
  }

  #take(bytes, format = 'v8', delaySecs = 0) {
    this.#stats.messages += 1;
    this.#stats.open += 1;
    const content =
      format === 'json'
        ? { body: JSON.parse(new TextDecoder().decode(bytes)) }
        : format === 'text'
          ? { body: new TextDecoder().decode(bytes) }
          : { serializedBody: bytes };
    const message = { id: crypto.randomUUID(), timestamp: new Date(), attempts: 0, ...content };
    this.#wait(message, delaySecs);
  }

  #wait(message, delaySecs) {
    this.#stats.waiting += 1;
    this.#waitFor(message, delaySecs);
  }

  #waitFor(message, delaySecs) {
    if (delaySecs > 0) return setTimeout(() => this.#waitFor(message, 0), delaySecs * 1000);
    this.#waiting.push(message);
    if (this.#waiting.length >= this.env.BATCH_SIZE) {
      clearTimeout(this.#timer);
      this.#timer = undefined;
      this.#deliver(this.#waiting.splice(0));
    } else this.#timer ??= setTimeout(() => this.#flush(), this.env.BATCH_TIMEOUT_S * 1000);
  }

  #flush() {
    this.#timer = undefined;
    this.#deliver(this.#waiting.splice(0));
  }

  async #deliver(batch) {
    this.#stats.deliveries += batch.length;
    this.#stats.waiting -= batch.length;
    const messages = batch.map((message) => ({ ...message, attempts: (message.attempts += 1) }));
    let result;
    try {
      result = await this.env.CONSUMER.queue(this.env.QUEUE_NAME, messages);
    } catch (error) {
      console.error(`The consumer failed: ${error}`);
      result = { outcome: 'exception' };
    }
    const retryAll = result.outcome !== 'ok' || result.retryBatch?.retry;
    const again = new Map(
      (result.retryMessages ?? []).map(({ msgId, delaySeconds }) => [msgId, delaySeconds]),
    );
    for (const message of batch) {
      if (retryAll || again.has(message.id)) this.#wait(message, again.get(message.id) ?? 1);
      else this.#stats.open -= 1;
    }
  }
}
