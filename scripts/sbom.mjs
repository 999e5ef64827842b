// `npm run sbom` prints the bill of materials of what is deployed: CycloneDX 1.6 (https://cyclonedx.org/docs/1.6/json/). These are crates
// in the WebAssembly of the Workers: npm packages only build and test. Made of the lock files alone: the same source gives the same bytes.
import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

import { checksums, shipped } from './lib/crates.mjs';
import { inRoot, workers } from './lib/paths.mjs';
import { say, script } from './lib/say.mjs';

export function billOfMaterials() {
  const { name, version } = JSON.parse(readFileSync(inRoot('package.json'), 'utf8'));
  const found = new Map();
  for (const { name: worker, dir, workspace } of workers) {
    const sums = checksums(workspace);
    for (const crate of shipped(dir)) {
      const component = ofCrate(crate, sums.get(`${crate.name} ${crate.version}`));
      const known = found.get(component.purl) ?? component;
      known.properties.push({ name: 'paid-once:worker', value: worker });
      found.set(component.purl, known);
    }
  }
  const components = [...found.values()].sort((a, b) => (a.purl < b.purl ? -1 : 1));
  return {
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    version: 1,
    metadata: {
      component: { type: 'application', 'bom-ref': name, name, version },
    },
    components,
  };
}

function ofCrate({ name, version, license }, checksum) {
  const hashes = checksum ? [{ alg: 'SHA-256', content: checksum }] : [];
  return library(`pkg:cargo/${name}@${version}`, {
    name,
    version,
    hashes,
    license: license.replaceAll('/', ' OR '),
  });
}

function library(purl, { name, version, hashes, license }) {
  return {
    type: 'library',
    'bom-ref': purl,
    name,
    version,
    purl,
    hashes,
    licenses: [{ expression: license }],
    properties: [],
  };
}

if (import.meta.url === pathToFileURL(process.argv[1]).href)
  await script(async () => say(JSON.stringify(billOfMaterials(), null, 2)));
