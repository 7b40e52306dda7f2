/* Where to write a series' name: at the line's end if there is air, else beside the line where it is emptiest, else in
   the margin with a dotted leader. Never on another line, never on a mark. */

const GAP = 5;

/** Points along a polyline, about every GAP px: what a label must keep away from. */
function along(line) {
  const out = [];
  line.forEach(([ax, ay], k) => {
    const [bx, by] = line[k + 1] ?? [ax, ay], n = Math.max(1, Math.ceil(Math.hypot(bx - ax, by - ay) / GAP));
    for (let t = 0; t <= n; t++) out.push([ax + ((bx - ax) * t) / n, ay + ((by - ay) * t) / n]);
  });
  return out;
}

/** lines: [{key, width, line: [[x, y]…], marks: [[x, y]…], pad}], box: {left, right, top, bottom, edge}, walls: [[x, y]…].
    Answers [{key, x, y, leader?}] in the order given, without those that fit nowhere (the list beside the plot names
    every series); y is the text's baseline. */
export function placeLabels(lines, box, walls) {
  const seen = new Set(), fresh = (x, y) => { const spot = `${x >> 3},${y >> 3}`; return !seen.has(spot) && seen.add(spot); }; // crowded marks keep off as one
  const taken = walls.map(([x, y]) => [x, y, null, 2]);
  for (const item of lines) {
    for (const [x, y] of item.marks) if (item.marks.length < 100 || fresh(x, y)) taken.push([x, y, item.key, 7]);
    for (const [x, y] of along(item.line)) taken.push([x, y, item.key, item.pad]);
  }
  const height = 14;
  const clearance = (x, y, width, own, enough) => { // exact down to `enough`: what has less air than that is out anyway
    let air = Math.min(y - box.top, box.bottom - 3 - y - height, box.edge - x - width, x - box.left);
    for (const [px, py, key, pad] of taken) {
      const dx = px < x ? x - px : px > x + width ? px - x - width : 0, dy = py < y ? y - py : py > y + height ? py - y - height : 0;
      const distance = Math.sqrt(dx * dx + dy * dy) - (key === own ? 0 : pad);
      if (distance < air && (air = distance) < enough) return air;
    }
    return air;
  };
  return lines.map(item => {
    const [ex, ey] = item.line.at(-1), w = item.width, atEnd = [ex + 12, ey - 7];
    let spot = clearance(...atEnd, w, item.key, 4) >= 4 ? atEnd : null, leader = null;
    if (!spot) {
      let best = 5;
      const step = taken.length > 600 ? 3 : 1; // in a crowd every third place is tried
      for (const [x, y] of along(item.line).filter((_, i) => i % step === 0)) for (const [cx, cy] of [[x + 8, y - 21], [x - w - 8, y + 8], [x + 8, y + 8], [x - w - 8, y - 21]]) {
        const air = Math.min(clearance(cx, cy, w, item.key, best), 14);
        if (air > best) { best = air; spot = [cx, cy]; }
      }
    }
    if (!spot) {
      const x = Math.min(box.right + 10, box.edge - w), free = [];
      for (let y = box.top; y < box.bottom - 17; y += 4) if (clearance(x, y, w, item.key, 3) >= 3) free.push(y);
      if (!free.length) return null;
      const y = free.reduce((a, b) => (Math.abs(b - ey + 7) < Math.abs(a - ey + 7) ? b : a));
      spot = [x, y];
      leader = `M${ex + 9},${ey}L${spot[0] - 4},${y + 7}`;
    }
    for (let px = spot[0]; px <= spot[0] + w; px += 8) for (const py of [spot[1], spot[1] + 7, spot[1] + height]) taken.push([px, py, null, 4]);
    return { key: item.key, x: spot[0], y: spot[1] + 11, leader };
  }).filter(Boolean);
}
