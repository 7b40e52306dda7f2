/* Runs, live: when the data changes, the part of the page that lists it is fetched again and put in its place. The
   server's page is the one form of it, so what is live and what was loaded cannot differ. */
import { one } from './dom.js';
import { servedPage } from './served.js';

async function again() {
  const answer = await fetch(location.href, { headers: { accept: 'text/html' } });
  if (!answer.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), 'text/html');
  for (const id of ['lead', 'live-part']) {
    const mine = one(`#${id}`), theirs = fresh.getElementById(id);
    if (mine && theirs && !mine.contains(document.activeElement)) mine.replaceWith(document.adoptNode(theirs));
  }
}

servedPage(one('[data-version]').dataset.version, again);
