/* A page that the server wrote whole. */
import { one } from './dom.js';
import { servedPage } from './served.js';

servedPage(one('[data-version]')?.dataset.version ?? null);
