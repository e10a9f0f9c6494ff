// What a reader would complain of on this page, as sentences; [] is what we want.
() => {
  const complaints = [];
  const wide = document.documentElement.scrollWidth - window.innerWidth;
  if (wide > 0) complaints.push(`the page is ${wide} pixels wider than the window`);
  for (const image of document.querySelectorAll("article img")) {
    if (!image.alt.trim()) complaints.push(`${image.src} has no alternative text`);
    if (image.complete && !image.naturalWidth) complaints.push(`${image.src} does not show`);
  }
  for (const formula of document.querySelectorAll(".math"))
    if (!formula.querySelector("mjx-container")) complaints.push(`not set: ${formula.textContent}`);
  for (const error of document.querySelectorAll("mjx-merror, [data-mjx-error]"))
    complaints.push(`not understood: ${error.getAttribute("data-mjx-error")}`);
  const code = "article :is(.highlight-python, .highlight-py, .highlight-sh, .highlight-toml) pre";
  for (const block of window.innerWidth > 1000 ? document.querySelectorAll(code) : [])
    if (block.scrollWidth > block.clientWidth) complaints.push(`cut off: ${block.textContent.slice(0, 40)}`);
  // a line of text that begins with 1. or > is taken for a list or a quotation
  for (const block of document.querySelectorAll("article :is(ol > li:only-child, blockquote)"))
    complaints.push(`torn off: ${block.textContent.trim().slice(0, 40)}`);

  // contrast as WCAG 2 reckons it: 4.5 for text, 3 for large text
  const channels = (text) => {
    const [r, g, b, a = 1] = text.match(/[\d.]+/g).map(Number);
    return text.startsWith("color(") ? [r * 255, g * 255, b * 255, a] : [r, g, b, a];
  };
  const over = ([r, g, b, a], below) => [r, g, b].map((c, i) => c * a + below[i] * (1 - a));
  const background = (element) => {
    if (!element) return [255, 255, 255];
    const own = channels(getComputedStyle(element).backgroundColor);
    return own[3] === 1 ? own.slice(0, 3) : over(own, background(element.parentElement));
  };
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const seen = new Set();
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT, (node) =>
    node.nodeType === Node.TEXT_NODE ? NodeFilter.FILTER_ACCEPT
      : node.tagName === "MJX-CONTAINER" ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_SKIP);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    const bare = texts.currentNode.textContent.match(/\$.{0,20}|\\[A-Za-z]{2,}.{0,20}|[\w)]\^.{0,20}|\w_\{.{0,20}/);
    if (bare && !element.closest("pre, code, script, style")) complaints.push(`not set: ${bare[0]}`);
    if (!texts.currentNode.textContent.trim() || !element.checkVisibility({ visibilityProperty: true })) continue;
    const style = getComputedStyle(element);
    const below = background(element);
    const size = parseFloat(style.fontSize);
    const key = [style.color, below, size, style.fontWeight].join();
    if (seen.has(key)) continue;
    seen.add(key);
    const [low, high] = [luminance(over(channels(style.color), below)), luminance(below)].sort((a, b) => a - b);
    const contrast = (high + 0.05) / (low + 0.05);
    const needed = size >= 24 || (size >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5;
    if (contrast < needed)
      complaints.push(`contrast ${contrast.toFixed(2)} of "${texts.currentNode.textContent.trim().slice(0, 40)}"`);
  }
  return complaints;
};
