// What clients were told. An act is a request of somebody's, sent until it is known how it ended:
//
//     { name, path, body, key, payment, who, answers, replays, refused, abandoned, view }
//
// `name` is `pay`, `capture`, `void`, `refunds` or `checkout`; `answers` are those that are definitive, `replays` what it was answered when it was
// asked once more; `view` is where its key stands.

/** Definitive answers, which are stored. 202: the provider has taken it over, and tells later. */
const ENDS = [200, 201, 202, 402];
/** These store nothing: the operation cannot be done any more. */
const REFUSALS = ['/problems/payment-state', '/problems/amount-too-large'];
const NOT_YET = ['request-in-progress', 'interrupted', 'outcome-unknown', 'temporarily-unavailable'].map(
  (kind) => `/problems/${kind}`,
);
const LOOK_AGAIN_MS = 300;

/** What an answer means: `{ end }`, `{ refused }`, or to ask again ([notYet]); nothing of them if it must not be. */
export function meaning(answer, { key }) {
  if (ENDS.includes(answer.status)) return { end: kept(answer) };
  const { type, state, available } = problemOf(answer);
  // Two captures without a header are one request: with two amounts one of them is a mistake.
  const isMismatch = !key && type === '/problems/idempotency-key-reused';
  if (isMismatch || REFUSALS.includes(type)) return { refused: { type, state, available } };
  if (NOT_YET.includes(type)) return notYet(answer);
  return {};
}

/** To ask again `waitMs` later, and what was `told` for a report: of a page its heading. */
export function notYet({ status, headers, text }) {
  const seconds = headers['retry-after'];
  const heading = /<h1[^>]*>([^<]*)/.exec(text)?.[1].trim();
  return { waitMs: seconds ? 1000 * Number(seconds) : LOOK_AGAIN_MS, told: `${status} ${heading ?? text}` };
}

/** What must be the same in every replay, and whether this was one. */
export function kept({ status, headers, text }) {
  return {
    status,
    contentType: headers['content-type'],
    location: headers.location,
    original: headers['original-request'],
    text,
    replayed: headers['idempotent-replayed'] === 'true',
  };
}

function problemOf({ text }) {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}

/** All that an act was answered, as far as it must be the same. */
export const versionsOf = ({ answers, replays = [] }) =>
  new Set([...answers, ...replays].map(({ replayed: _, ...answer }) => JSON.stringify(answer)));

/** How an act ended; nothing if nobody knows. */
export const endOf = ({ answers, replays = [] }) => [...answers, ...replays][0];

const paymentIn = (text) => /pay_[\w-]{43}/.exec(text ?? '')?.[0];

/** The payment that an act is about. */
export function paymentOf(act) {
  const end = endOf(act);
  return act.payment ?? paymentIn(end?.location) ?? paymentIn(end?.text) ?? paymentIn(act.view?.resource);
}
