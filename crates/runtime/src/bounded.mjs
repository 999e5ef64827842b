// Gathers a body, up to a length. As a stream of WebAssembly's each chunk of it, and its end, would be a turn.

/** The bytes of a response; `null` if there are more of them. Then the rest is not read, and nothing if its length says so. */
export async function bounded({ body, headers }, maxBytes) {
  if (Number(headers.get('content-length')) > maxBytes) {
    await body?.cancel();
    return null;
  }
  const chunks = [];
  let length = 0;
  for await (const chunk of body ?? []) {
    length += chunk.byteLength;
    if (length > maxBytes) return null;
    chunks.push(chunk);
  }
  if (chunks.length === 1) return chunks[0];
  const bytes = new Uint8Array(length);
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.byteLength;
  }
  return bytes;
}
