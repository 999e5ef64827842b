// What a caller is told when WebAssembly has trapped: the only answer that is not made there.
import { log } from '../once-object/guard.mjs';

/** A UUID of version 7: `RequestId` in Rust. */
export function requestId(at) {
  const time = at.toString(16).padStart(12, '0');
  return `req_${time.slice(0, 8)}-${time.slice(8)}-7${crypto.randomUUID().slice(15)}`;
}

/** Whether a person asks: what sends credentials is a program. `Request::wants_problem_page` in Rust weighs the whole header. */
const isPerson = ({ headers }) =>
  !headers.has('authorization') && (headers.get('accept') ?? '').trim().startsWith('text/html');

/**
 * A problem; for a person, a page. The error is logged under the id that the caller is given. `origins`, separated by commas, are those whose
 * scripts may read it.
 */
export function interrupted(request, error, origins = '') {
  const id = requestId(Date.now());
  log('trapped', error, { request_id: id });
  const forPerson = isPerson(request);
  const asking = request.headers.get('origin');
  const origin = origins
    .split(',')
    .map((one) => one.trim())
    .find((one) => one === asking);
  const title = 'The request was interrupted';
  const detail = 'Send the same request with the same key again: it goes on from where it was.';
  const problem = { type: '/problems/interrupted', title, status: 500, detail, instance: id };
  const page = `<!doctype html>
<html lang="en">
  <meta charset="utf-8" />
  <meta name="viewport" content="width=device-width" />
  <link rel="icon" href="data:," />
  <title>${title}</title>
  <h1>${title}</h1>
  <p>Load this page again to go on from where it was. You pay once, however often the form is sent.</p>
</html>
`;
  return new Response(forPerson ? page : JSON.stringify(problem), {
    status: 500,
    headers: {
      'content-type': forPerson ? 'text/html; charset=utf-8' : 'application/problem+json',
      'cache-control': 'private, no-store',
      'content-security-policy': "default-src 'none'; img-src data:; frame-ancestors 'none'",
      'cross-origin-opener-policy': 'same-origin',
      'cross-origin-resource-policy': 'same-origin',
      'referrer-policy': 'same-origin',
      'request-id': id,
      'retry-after': '1',
      'x-content-type-options': 'nosniff',
      ...(origins && { vary: 'Origin' }),
      ...(origin && {
        'access-control-allow-origin': origin,
        'access-control-expose-headers': 'Request-Id, Retry-After',
      }),
      ...(request.url.startsWith('https:') && { 'strict-transport-security': 'max-age=31536000' }),
    },
  });
}
