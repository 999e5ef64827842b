// Fails where the house is not in order: modules in a circle, files that are too long, old names, comments with paths of one machine,
// and documents that name a file, a command or a test that is not there. The rules are in tidy/rules.mjs, their test is tidy.test.mjs.
import { readFileSync } from 'node:fs';

import { inRoot, root } from '../lib/paths.mjs';
import { suites } from './suites.mjs';
import { check } from './tidy/rules.mjs';

/** Names of items and modules that are gone, or are to go. Words that have a plain meaning beside the old one are not in the list. */
const everywhere = words(`
  Rows Thing Courier Happening Manner Fate ForeignCall RunAsk Elsewhere Drawn Sight Told Stranger Flagged Doubt Wish Trouble Saw Semantics
`);

const config = {
  crates: [
    {
      name: 'paid-once',
      dir: '.',
      old: {
        items: [
          ...everywhere,
          ...words(
            'Story Sheet Arrival Verdict Ticket Appended News Taken Truth Silence Standing Ours Bench Does',
          ),
        ],
        modules: words(`
          story sight sheets words picture plot news wake personal levels forget books tally pace naive told promises dice
        `),
      },
    },
    {
      name: 'once',
      dir: 'crates/once',
      old: {
        items: [...everywhere, ...words('Arrival Ticket Appended Bound arm note')],
        modules: words('wake personal rows'),
      },
    },
    {
      name: 'payments',
      dir: 'crates/payments',
      old: {
        items: [...everywhere, ...words('News Taken Truth Silence Arrival Verdict')],
        modules: words('news told personal'),
      },
    },
    { name: 'once-object', dir: 'crates/once-object', old: { items: everywhere, modules: [] } },
    {
      name: 'transfers',
      dir: 'crates/once-object/examples/transfers',
      old: { items: everywhere, modules: [] },
    },
    { name: 'once-testing', dir: 'crates/once-testing', old: { items: everywhere, modules: [] } },
    { name: 'guide', dir: 'crates/guide', old: { items: everywhere, modules: [] } },
    { name: 'json', dir: 'crates/json', old: { items: everywhere, modules: [] } },
    { name: 'web', dir: 'crates/web', old: { items: everywhere, modules: [] } },
    { name: 'messages', dir: 'crates/messages', old: { items: everywhere, modules: [] } },
    { name: 'runtime', dir: 'crates/runtime', old: { items: everywhere, modules: [] } },
    { name: 'desk', dir: 'desk', old: { items: everywhere, modules: [] } },
    { name: 'demo', dir: 'demo', old: { items: everywhere, modules: words('naive') } },
    { name: 'gate', dir: 'gate', old: { items: [...everywhere, ...words('Verdict')], modules: [] } },
    {
      name: 'simulator',
      dir: 'simulator',
      old: {
        items: [...everywhere, ...words('Order Does Standing')],
        modules: words('happenings'),
      },
    },
    { name: 'bindgen', dir: 'scripts/bindgen', old: { items: everywhere, modules: [] } },
    { name: 'fuzz', dir: 'fuzz', old: { items: everywhere, modules: [] } },
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

function words(text) {
  return text.trim().split(/\s+/);
}

const complaints = check(root, config);
for (const complaint of complaints) console.log(complaint);
if (complaints.length > 0) process.exitCode = 1;
