// Bodies that are too large to be held: their beginning is read, and the rest goes on as it comes.

/** `[first, reader]`: at least so many bytes of a body, if it has as many, and whence the rest comes; none where it has ended. */
export async function beginning(body, bytes) {
  const reader = body.getReader();
  const chunks = [];
  let size = 0;
  while (size < bytes) {
    const { done, value } = await reader.read();
    if (done) return [whole(chunks, size), undefined];
    chunks.push(value);
    size += value.byteLength;
  }
  return [whole(chunks, size), reader];
}

function whole(chunks, size) {
  const bytes = new Uint8Array(size);
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.byteLength;
  }
  return bytes;
}

/**
 * A body of its beginning and what a reader still gives, with its length where that is known: many servers read no body without it, and without it whoever
 * takes it sees an end where it breaks off. Where nobody takes it the rest is read all the same: a browser reads no answer before it has sent everything.
 */
export function joined(first, reader, length) {
  const { readable, writable } =
    length === undefined ? new IdentityTransformStream() : new FixedLengthStream(length);
  pump(writable.getWriter()).catch(() => {});
  return readable;

  async function pump(writer) {
    let isTaken = true;
    const write = async (chunk) => {
      try {
        if (isTaken) await writer.write(chunk);
      } catch {
        isTaken = false;
      }
    };
    try {
      await write(first);
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        await write(value);
      }
      if (isTaken) await writer.close();
    } catch (error) {
      // What takes it must see that it is not whole.
      if (isTaken) await writer.abort(error);
    }
  }
}

/** Reads to its end what nobody takes: many clients read no answer before they have sent everything. */
export async function drain(reader) {
  while (!(await reader.read()).done);
}

/** `[body, state]`: the same body, and in `state.isBroken` whether it broke off before its end: whoever takes it has not got it whole. */
export function watched(body, length) {
  const state = { isBroken: false };
  const { readable, writable } =
    length === undefined ? new IdentityTransformStream() : new FixedLengthStream(length);
  pump(body.getReader(), writable.getWriter()).catch(() => {});
  return [readable, state];

  async function pump(reader, writer) {
    let size = 0;
    for (;;) {
      const { done, value } = await reader.read().catch((error) => {
        state.isBroken = true;
        writer.abort(error).catch(() => {});
        throw error;
      });
      if (done) break;
      size += value.byteLength;
      await writer.write(value);
    }
    // Shorter than it said. Where all of it was taken, what takes it may be gone before this end.
    if (size < length) state.isBroken = true;
    await writer.close();
  }
}
