// Writes the read model anew, page by page: what fails keeps no other page from being written, and a run that ends early says where the next one
// goes on.
import { Stop } from './say.mjs';

/** How often a page is asked for: what was written twice is as if it was written once. */
const TRIES = 3;
/** So many objects of a page fail because of themselves. Where it is all of so many, something else is wrong. */
const MANY = 10;
/** How many ids are shown. */
const SHOWN = 50;

/** One payment, or `all` from the page on that begins after `after`. */
export async function rebuild(id, { after = '', post, say, pauseMs = 1_000 }) {
  let projected = 0;
  const failed = [];
  for (let next = after; next !== null;) {
    const page = await pageOf(id, next, { post, pauseMs });
    if (page.error) throw new Stop([page.error, ...told(failed), ...goOn(id, next)].join('\n'));
    projected += page.projected;
    failed.push(...(page.failed ?? []));
    next = page.next;
    if (next !== null) say(`${projected} on the way into the read model, next: ${next}`);
  }
  say(`${projected} on the way into the read model.`);
  if (failed.length > 0) throw new Stop(told(failed).join('\n'));
}

/** What came of a page, or the error with which it ended each time. */
async function pageOf(id, after, { post, pauseMs }) {
  let page;
  for (let at = 0; at < TRIES; at += 1) {
    if (at > 0) await new Promise((resolve) => setTimeout(resolve, pauseMs * at));
    try {
      page = await post(`/admin/payments/${id}/project?after=${encodeURIComponent(after)}`);
    } catch (error) {
      if (!(error instanceof Stop) || id !== 'all') throw error;
      page = { error: error.message };
    }
    if (!page.error && !page.failed?.length) return page;
  }
  if (page.error || page.projected > 0 || page.failed.length < MANY) return page;
  return { error: `No object answers: ${page.failed.length} of ${page.failed.length} failed.` };
}

function told(failed) {
  if (failed.length === 0) return [];
  const more =
    failed.length > SHOWN ? [`and ${failed.length - SHOWN} others: the log has them (project_failed)`] : [];
  const what = `${failed.length} failed. Once they answer: npm run rebuild --`;
  return [`${what} ${failed.slice(0, SHOWN).join(' ')}`, ...more];
}

const goOn = (id, after) =>
  id === 'all' ? [`Go on with: npm run rebuild -- all${after ? ` --after ${after}` : ''}`] : [];
