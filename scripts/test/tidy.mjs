// Fails where the house is not in order: modules in a circle, files that are too long, old names, comments with paths of one machine,
// and documents that name a file, a command or a test that is not there. The rules are in tidy/rules.mjs, their test is tidy.test.mjs.
import { readFileSync } from 'node:fs';

import { inRoot, root } from '../lib/paths.mjs';
import { suites } from './suites.mjs';
import { check } from './tidy/rules.mjs';

/** Names of items and modules that are gone, or are to go. Words that have a plain meaning beside the old one are not in the list. */
const everywhere = words(`
  Rows Thing Courier Happening Manner Fate ForeignCall RunAsk Elsewhere Drawn Sight Told Stranger Flagged Doubt Wish Trouble Saw Semantics
  Story Sheet Arrival Verdict BindVerdict Ticket Appended News Taken Truth Standing Sighting Pace Dice Bench
`);
/** The same of modules. */
const modules = words(`
  story sight sheets words picture plot news wake personal levels forget books tally pace naive told promises dice verdict happenings
`);

const config = {
  crates: [
    { name: 'paid-once', dir: '.', old: old('Silence Ours Does Off') },
    { name: 'once', dir: 'crates/once', old: old('Bound arm note', 'rows') },
    { name: 'payments', dir: 'crates/payments', old: old('Silence') },
    { name: 'simulator', dir: 'simulator', old: old('Order Does') },
    { name: 'transfers', dir: 'crates/once-object/examples/transfers', old: old() },
    ...['once-object', 'once-testing', 'guide', 'json', 'web', 'messages', 'runtime'].map((name) => ({
      name,
      dir: `crates/${name}`,
      old: old(),
    })),
    ...['desk', 'demo', 'gate', 'fuzz'].map((name) => ({ name, dir: name, old: old() })),
    { name: 'bindgen', dir: 'scripts/bindgen', old: old() },
  ],

  // The first that matches counts. In Rust, tests inside of the file do not.
  limits: [
    { files: /^(?:simulator\/|desk\/|demo\/|gate\/|crates\/[\w-]+\/)?(?:src|tests)\/.*\.rs$/, lines: 500 },
    { files: /^tests\/.*\.mjs$/, lines: 600 },
    { files: /\.(?:mjs|js|css)$/, lines: 400 },
  ],

  documents:
    /^(?:README|CONTRIBUTING|SECURITY|docs\/[^/]+|(?:simulator|gate)\/README|crates\/[\w-]+\/README)\.md$/,
  claims: [{ file: 'docs/protocol.md', heading: '## What the standard asks and where it is shown' }],
  scripts: Object.keys(JSON.parse(readFileSync(inRoot('package.json'), 'utf8')).scripts),
  suites: suites().map(({ name }) => name),

  // What is not in order yet. It only shrinks: an entry that is not needed any more fails, and nothing is added.
  baseline: {
    circles: [],
    'long files': [],
    'old names': [],
  },
};

/** What is old everywhere, and these in one crate: elsewhere they have a plain meaning. */
function old(items = '', also = '') {
  return { items: [...everywhere, ...words(items)], modules: [...modules, ...words(also)] };
}

function words(text) {
  return text.split(/\s+/).filter(Boolean);
}

const complaints = check(root, config);
for (const complaint of complaints) console.log(complaint);
if (complaints.length > 0) process.exitCode = 1;
