// Every visible text: at least 12 px, and 4.5:1 against the nearest painted background (a canvas reads any colour).
() => {
  const pen = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgba = colour => {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = colour;
    pen.fillRect(0, 0, 1, 1);
    return [...pen.getImageData(0, 0, 1, 1).data];
  };
  const linear = v => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
  const behind = node => {
    for (let n = node; n; n = n.parentElement) {
      const colour = rgba(getComputedStyle(n).backgroundColor);
      if (colour[3] > 250) return colour;
    }
    return [255, 255, 255, 255];
  };
  // Text on a plate of the opposite colour, and what nobody reads there.
  const skipped = 'script, style, noscript, .sr, .skip, .pill, .limit-handle, .tip, :disabled';
  const out = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.data.trim(), node = walker.currentNode.parentElement;
    const style = getComputedStyle(node), box = node.getBoundingClientRect();
    if (!text || !box.width || style.visibility === 'hidden' || node.closest(skipped)) continue;
    const ink = light(rgba(node instanceof SVGElement ? style.fill : style.color)), paper = light(behind(node));
    const ratio = (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05), size = parseFloat(style.fontSize);
    if (ratio < 4.45 || size < 11.99) out.add(`“${text.slice(0, 40)}” ${ratio.toFixed(2)} ${size}px`);
  }
  return [...out];
}
