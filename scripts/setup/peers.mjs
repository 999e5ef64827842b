// Redis and Postgres of Debian, for `npm run bench -- --peers`. Their services are not started: each run has its own on a folder of its own.
import { ask, run } from '../lib/run.mjs';
import { Stop } from '../lib/say.mjs';
import { asRoot } from './apt.mjs';

/** `postgresBin` gives the folder of Postgres' programs, if there is one. */
export async function setUpPeers(postgresBin) {
  const hasRedis = async () => (await run('redis-server', ['--version'])).ok;
  const missing = [...((await hasRedis()) ? [] : ['redis-server']), ...(postgresBin() ? [] : ['postgresql'])];
  if (missing.length > 0) {
    if (ask('apt-get', ['--version']) === null)
      throw new Stop(`The peers need ${missing.join(' and ')}, of Debian or Ubuntu.`);
    await asRoot('apt package lists', ['apt-get', 'update']);
    const install = ['apt-get', 'install', '--yes', '--no-install-recommends', ...missing];
    await asRoot(missing.join(' and '), ['env', 'RUNLEVEL=1', ...install]);
  }
  if (!(await hasRedis()) || !postgresBin())
    throw new Stop('The peers need redis-server and Postgres with initdb.');
}
