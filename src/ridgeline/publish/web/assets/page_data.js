/* The data page: the server answers, the page sends on Ctrl and Enter. */
import { one } from './dom.js';
import { servedPage } from './served.js';

servedPage();
one('#q').addEventListener('keydown', event => { if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) { event.preventDefault(); one('#sql').requestSubmit(); } });
