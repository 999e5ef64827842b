// What the provider's ledger holds.

const total = (lines, name) => lines.reduce((sum, line) => sum + line[name], 0);
const NOTHING = { charges: 0, kept: 0, authorised: 0, captured: 0, refunded: 0, refunds: [], voided: 0 };

/** What each payment has moved, by its id. */
export function movedByPayment({ charges, refunds = [] }) {
  const given = Map.groupBy(
    refunds.filter(({ status }) => status !== 'failed'),
    ({ charge }) => charge,
  );
  const moved = new Map();
  for (const [id, own] of Map.groupBy(charges, ({ metadata }) => metadata.resource)) {
    const taken = own.filter(({ status }) => status === 'succeeded');
    const back = own.flatMap((charge) => given.get(charge.id) ?? []);
    const voided = taken.filter((charge) => charge.voided).length;
    moved.set(id, {
      charges: taken.length,
      kept: taken.length - voided,
      authorised: total(taken, 'amount'),
      captured: total(taken, 'amount_captured'),
      refunded: total(back, 'amount'),
      refunds: back,
      voided,
    });
  }
  return moved;
}

export const movedOf = (moved, id) => moved.get(id) ?? NOTHING;

/** What must never be. An order that was called off may be tried anew: what was reserved for it then is voided. */
export function movedTwice(ledger) {
  const wrong = [];
  for (const [id, { charges, kept }] of movedByPayment(ledger))
    if (kept > 1) wrong.push(`${id} was charged ${charges} times`);
  const keyed = (ledger.refunds ?? []).filter(({ metadata }) => metadata.idempotency_key);
  for (const [key, all] of Map.groupBy(keyed, ({ metadata }) => metadata.idempotency_key))
    if (all.length > 1) wrong.push(`${key} was refunded ${all.length} times`);
  return wrong;
}
