// What is asked of a page once a browser has laid it out. The answer is left in the page as JSON.
(() => {
  const parsed = (colour) => colour.match(/[\d.]+/g).map(Number);
  const luminance = (colour) => {
    const [r, g, b] = parsed(colour).slice(0, 3).map((v) => v / 255)
      .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  // As the Web Content Accessibility Guidelines define it.
  const contrast = (one, other) => {
    const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const box = (element) => {
    const { left, top, right, bottom } = element.getBoundingClientRect();
    return { left, top, right, bottom };
  };
  const within = (inner, outer) => inner.left >= outer.left - 1 && inner.right <= outer.right + 1
    && inner.top >= outer.top - 1 && inner.bottom <= outer.bottom + 1;
  const overlap = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
  const painted = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (parsed(colour)[3] !== 0) return colour;
    }
    return "rgb(255, 255, 255)";
  };

  const troubles = [];
  const svg = document.querySelector("svg");
  const view = box(svg);
  const scale = (view.right - view.left) / svg.viewBox.baseVal.width;
  const texts = [...svg.querySelectorAll("text")].map((text) => ({ text, box: box(text) }));
  const rects = [...svg.querySelectorAll("rect")].map((rect) => ({ rect, box: box(rect) }));
  for (const { text, box: place } of texts) {
    const style = getComputedStyle(text);
    const say = (what) => troubles.push(`"${text.textContent}" ${what}`);
    if (!within(place, view)) say("leaves the picture");
    const slice = text.parentElement.querySelector(":scope > rect");
    if (text.parentElement.tagName === "g" && !within(place, box(slice))) say("leaves its slice");
    const size = parseFloat(style.fontSize) * scale;
    if (size < 9) say(`is ${size.toFixed(1)} px high`);
    // The last rectangle that is drawn below the middle of the text.
    const middle = { x: (place.left + place.right) / 2, y: (place.top + place.bottom) / 2 };
    const below = rects.filter(({ box: r }) => r.left <= middle.x && middle.x <= r.right && r.top <= middle.y && middle.y <= r.bottom);
    const ground = getComputedStyle(below.at(-1).rect).fill;
    if (contrast(style.fill, ground) < 4.5) say(`has a contrast of ${contrast(style.fill, ground).toFixed(1)}`);
  }
  texts.forEach((one, number) => texts.slice(number + 1).forEach((other) => {
    if (overlap(one.box, other.box)) troubles.push(`"${one.text.textContent}" lies on "${other.text.textContent}"`);
  }));
  for (const element of document.querySelectorAll("h1, h2, p, li, th, td, span, code, summary, pre")) {
    if (element.closest("svg") || !element.textContent.trim() || !element.getClientRects().length) continue;
    const found = contrast(getComputedStyle(element).color, painted(element));
    if (found < 4.5) troubles.push(`<${element.localName}> "${element.textContent.slice(0, 40)}" has a contrast of ${found.toFixed(1)}`);
  }
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) troubles.push(`the page is ${root.scrollWidth} px wide in a window of ${root.clientWidth}`);

  const count = (word) => [...svg.querySelectorAll("g > title")].filter((title) => title.textContent.endsWith(`, ${word}`)).length;
  const answer = document.createElement("script");
  answer.type = "application/json";
  answer.id = "measured";
  answer.textContent = JSON.stringify({
    heading: document.querySelector("h1").textContent,
    title: document.title,
    headings: [...document.querySelectorAll("h2")].map((h) => h.textContent),
    dark: matchMedia("(prefers-color-scheme: dark)").matches,
    width: root.clientWidth,
    texts: texts.length,
    slices: { created: count("created"), destroyed: count("destroyed"), all: svg.querySelectorAll("g > title").length },
    loaded: performance.getEntriesByType("resource").map((entry) => entry.name),
    foreign: [...document.querySelectorAll("img, iframe, link, object, script[src], a[href]")].map((e) => e.outerHTML),
    troubles,
  }).replaceAll("<", "\\u003c");
  document.body.append(answer);
})();
