/* The report: everything is inside the file, and the fragment is the state. */
import { one } from './dom.js';
import { frontierPage } from './frontier.js';
import { shell } from './shell.js';

shell();
frontierPage(JSON.parse(one('#data').textContent));
