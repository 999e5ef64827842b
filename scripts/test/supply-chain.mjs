// Fails when something could be fetched whose content nobody has vouched for: an npm package without an integrity hash, a crate
// from elsewhere than crates.io or without a checksum, a licence that deny.toml does not allow, or a bill of materials that leaves
// out what is shipped. Where cargo-deny is installed it judges too; it is not fetched, because compiling it takes minutes.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

import { checksums, resolved, shipped } from '../lib/crates.mjs';
import { inRoot, workers, workspaces } from '../lib/paths.mjs';
import { billOfMaterials } from '../sbom.mjs';

const REGISTRY = 'registry+https://github.com/rust-lang/crates.io-index';

npmHasHashes();
const allowed = licencesOf(readFileSync(inRoot('deny.toml'), 'utf8'));
const others = [
  { name: 'fuzz', dir: inRoot('fuzz') },
  { name: 'scripts/bindgen', dir: inRoot('scripts', 'bindgen') },
];
for (const project of [...workspaces, ...others]) sources(project);
for (const worker of workers) licences(worker);
bill();
cargoDeny();

function npmHasHashes() {
  const { packages } = JSON.parse(readFileSync(inRoot('package-lock.json'), 'utf8'));
  const entries = Object.entries(packages).filter(([path]) => path !== '');
  if (entries.length < 50) complain('package-lock.json lists almost nothing');
  for (const [path, { integrity }] of entries)
    if (!/^sha512-[A-Za-z0-9+/]{86}==$/.test(integrity ?? ''))
      complain(
        `package-lock.json: ${path} has no sha512 integrity; choose a version that the registry has whole`,
      );
}

function sources({ name, dir }) {
  const sums = checksums(dir);
  const known = resolved(dir).packages.filter(({ source }) => source !== null);
  for (const crate of known) {
    const title = `${name}: ${crate.name} ${crate.version}`;
    if (crate.source !== REGISTRY) complain(`${title} comes from ${crate.source}`);
    if (!sums.has(`${crate.name} ${crate.version}`)) complain(`${title} has no checksum`);
  }
}

function licences({ name, dir }) {
  for (const crate of shipped(dir))
    if (!isAllowed(crate.license ?? ''))
      complain(`${name}: ${crate.name} has the licence ${crate.license}, which deny.toml does not allow`);
}

function licencesOf(deny) {
  const [, list] = deny.match(/^\[licenses\][^[]*?allow = \[([^\]]*)\]/m) ?? [];
  const found = [...(list ?? '').matchAll(/"([^"]+)"/g)].map(([, licence]) => licence);
  if (found.length === 0) complain('deny.toml allows no licence');
  return new Set(found);
}

/** An SPDX expression: https://spdx.github.io/spdx-spec/v2.3/SPDX-license-expressions/. An old `A/B` means `A OR B`. */
function isAllowed(expression) {
  const words = expression.replaceAll('/', ' OR ').match(/[()]|[^\s()]+/g) ?? [];
  let at = 0;
  const one = () => {
    const word = words[at++];
    if (word !== '(') {
      const exception = words[at] === 'WITH' ? ` WITH ${words[(at += 2) - 1]}` : '';
      return allowed.has(`${word}${exception}`);
    }
    const inside = either();
    at += 1; // the closing parenthesis
    return inside;
  };
  const all = () => {
    let result = one();
    while (words[at] === 'AND') {
      at += 1;
      const next = one();
      result &&= next;
    }
    return result;
  };
  function either() {
    let result = all();
    while (words[at] === 'OR') {
      at += 1;
      const next = all();
      result ||= next;
    }
    return result;
  }
  return either() && at === words.length;
}

/** The same at every call, and nothing that is shipped is missing. */
function bill() {
  const made = billOfMaterials();
  if (JSON.stringify(made) !== JSON.stringify(billOfMaterials()))
    complain('the bill of materials is another one at each call');
  const listed = new Set(made.components.map(({ purl }) => purl));
  for (const { name, dir } of workers)
    for (const crate of shipped(dir))
      if (!listed.has(`pkg:cargo/${crate.name}@${crate.version}`))
        complain(`${name}: ${crate.name} is missing in the bill of materials`);
  for (const { name, hashes } of made.components)
    if (!hashes?.length) complain(`${name} stands without a hash in the bill of materials`);
}

function cargoDeny() {
  if (spawnSync('cargo', ['deny', '--version']).status !== 0) return;
  const args = ['deny', 'check', 'licenses', 'bans', 'sources'];
  const judged = spawnSync('cargo', args, { cwd: inRoot(), encoding: 'utf8' });
  if (judged.status !== 0) complain(judged.stderr);
}

function complain(what) {
  console.log(what);
  process.exitCode = 1;
}
