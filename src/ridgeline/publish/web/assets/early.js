/* Before the first paint: the theme that was chosen, so that a dark page never flashes light. */
try {
  const kept = localStorage.getItem('ridgeline-theme');
  if (kept === 'dark' || kept === 'light') document.documentElement.dataset.theme = kept;
  if (localStorage.getItem('ridgeline-rail') === 'open') document.documentElement.dataset.rail = 'open';
} catch { /* a browser without storage follows the system */ }
