// The sweep: objects whose alarm is late or lost are woken, as the read model knows them.

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';

import { ADMIN_TOKEN, abandoned } from './support/abandoned.mjs';
import { account } from './support/account.mjs';
import { startSite } from './support/harness.mjs';
import { objectId } from './support/objects.mjs';
import { readModel } from './support/readmodel.mjs';
import { until } from './support/until.mjs';

describe('the sweep', async () => {
  // What the reconciliation finds is not what these tests are about.
  const site = await startSite({ vars: { RECONCILE_QUIET_MS: '3600000' }, secrets: { ADMIN_TOKEN } });
  const user = account(site);
  const model = readModel(site);
  after(() => site.close());

  const dueAt = (ride, at) =>
    model.run("UPDATE keys SET wake_at_ms = ? WHERE object = ? AND status = 'open'", at, objectId(ride));

  test('wakes an object whose alarm was lost, and control: not before its alarm is late', async () => {
    const { key, ride } = await abandoned(site, user, model);
    await dueAt(ride, Date.now() - 60_000);
    assert.deepEqual((await model.tick()).sweep, { late: 0, woken: 0, failed: 0 });
    assert.equal((await site.objects.key(ride)).status, 'open', 'nothing else takes it up');

    await dueAt(ride, Date.now() - 180_000);
    assert.deepEqual((await model.tick()).sweep, { late: 1, woken: 1, failed: 0 });
    await until('it is finished', async () => (await site.objects.key(ride)).status === 'finished');
    assert.equal(await site.simulator.charges(ride), 1);
    assert.equal((await user.book(key)).status, 201);
    await model.reaches(ride, 'paid');
    assert.equal((await model.tick()).sweep.late, 0);
  });

  test('goes on when one object fails', async () => {
    const { ride } = await abandoned(site, user, model);
    const late = Date.now() - 180_000;
    await dueAt(ride, late);
    await model.run(
      `INSERT INTO keys (object, key_id, version, key_hash, owner, status, recovery_point, attempts, failures, in_doubt, flagged,
         wake_at_ms, created_at_ms, updated_at_ms)
       VALUES ('no object', 1, 1, 'h', 'o', 'open', 'started', 1, 0, 0, 0, ?1, ?1, ?1)`,
      late,
    );
    assert.deepEqual((await model.tick()).sweep, { late: 2, woken: 1, failed: 1 });
    await until('it is finished', async () => (await site.objects.key(ride)).status === 'finished');
    await model.run("DELETE FROM keys WHERE object = 'no object'");
  });
});
