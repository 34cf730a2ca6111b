// Values of charts where they are pointed at, by arrow keys too, and the switch between scales.  Loaded by assay.js on
// pages with charts; they read without it, by the table under each.

const SVG = "http://www.w3.org/2000/svg";
const CHARTS = "figure.plot, figure.chart, figure.spark";
const scales = new Map();  // label of a chart → name of the scale that was chosen, kept when a live part is swapped

function element(name, attributes = {}, text = "") {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
}

function swatch(kind, style) {
  const key = document.createElementNS(SVG, "svg");
  key.setAttribute("class", kind === "stack" ? "key" : `key line-${style}`);
  key.setAttribute("viewBox", kind === "stack" ? "0 0 10 10" : "0 0 28 10");
  const mark = document.createElementNS(SVG, kind === "stack" ? "rect" : "polyline");
  const shape = kind === "stack" ? { class: `stack-${style}`, width: 10, height: 10, rx: 2 } : { points: "1,5 27,5" };
  for (const [name, value] of Object.entries(shape)) mark.setAttribute(name, value);
  key.append(mark);
  return key;
}

// Stops of a frame that says them: {x, y} in pixels of the frame, a label, and a value for each line.
function told(frame) {
  const { names, stops, holds } = JSON.parse(frame.dataset.reading);
  const kind = frame.querySelector("path[class^=stack]") ? "stack" : "line";
  const last = new Map();
  return stops.map(([at, label, values]) => {
    for (const [line, y, text] of values) last.set(line, [line, y, text]);
    const shown = holds ? Array.from(last.values()).sort((a, b) => a[0] - b[0]) : values;
    return {
      x: () => at / 100 * frame.getBoundingClientRect().width,
      y: () => null,
      label,
      lines: shown.map(([line, y, text]) => ({ key: swatch(kind, kind === "stack" ? line : line % 6), name: names[line], text, y })),
    };
  });
}

// Stops of a frame of which each mark says its own values; a bar counts in its whole height.
function titled(frame) {
  return Array.from(frame.querySelectorAll("circle, rect"), (mark) => {
    const label = mark.querySelector("title")?.textContent || mark.dataset.title;
    if (!label) return null;
    const centre = (side, length) => {
      const box = mark.getBoundingClientRect(), outer = frame.getBoundingClientRect();
      return box[side] - outer[side] + box[length] / 2;
    };
    return { x: () => centre("left", "width"), y: mark.matches("rect") ? () => null : () => centre("top", "height"), label, lines: [], mark };
  }).filter(Boolean);
}

function enable(figure) {
  figure.dataset.reads = "yes";
  const box = element("div", { class: "reading", role: "status" });
  const cursor = document.createElementNS(SVG, "line");
  cursor.setAttribute("class", "cursor");
  figure.append(box);
  let frame = null, stops = [], at = -1;

  function choose(other) {
    if (other === frame) return;
    hide();
    frame = other;
    stops = frame.dataset.reading ? told(frame) : titled(frame);
    if (!frame.dataset.reading) stops.sort((a, b) => a.x() - b.x());
  }

  function hide() {
    at = -1;
    box.replaceChildren();
    cursor.remove();
    figure.querySelectorAll(".pointed").forEach((mark) => mark.classList.remove("pointed"));
  }

  function show(place) {
    if (place === at || !stops[place]) return;
    hide();
    at = place;
    const stop = stops[place];
    box.append(element("strong", {}, stop.label));
    for (const { key, name, text } of stop.lines) {
      const line = element("span", { class: "line" });
      line.append(key, ` ${name} `, element("b", {}, text));
      box.append(line);
    }
    stop.mark?.classList.add("pointed");
    const outer = figure.getBoundingClientRect(), inner = frame.getBoundingClientRect(), x = stop.x();
    if (frame.matches(".frame") && stop.y() === null) {
      const foot = frame.querySelector(".axis")?.getAttribute("y1") || inner.height;
      for (const [name, value] of Object.entries({ x1: x, x2: x, y1: 0, y2: foot })) cursor.setAttribute(name, value);
      frame.append(cursor);
    }
    const middle = inner.left - outer.left + x;
    const left = middle + 12 + box.offsetWidth <= outer.width ? middle + 12 : middle - 12 - box.offsetWidth;
    box.style.left = `${Math.max(0, Math.min(left, outer.width - box.offsetWidth))}px`;
    // On a narrow chart it would hide the lines: it stands over the legend, which it repeats.
    box.style.top = `${(box.offsetWidth > inner.width / 2 ? inner.bottom : inner.top) - outer.top}px`;
  }

  function nearest(event) {
    const inner = frame.getBoundingClientRect();
    const x = event.clientX - inner.left, y = event.clientY - inner.top;
    const away = (stop) => Math.hypot(stop.x() - x, stop.y() === null ? 0 : stop.y() - y);
    return stops.reduce((best, stop, place) => (best < 0 || away(stop) < away(stops[best]) ? place : best), -1);
  }

  function visible() {
    return Array.from(figure.querySelectorAll("svg[role=img]")).find((each) => !each.hasAttribute("hidden"));
  }

  for (const name of ["pointermove", "pointerdown"]) {
    figure.addEventListener(name, (event) => {
      const pointed = event.target.closest?.("svg[role=img]");
      if (!pointed) return;
      choose(pointed);
      show(nearest(event));
    });
  }
  // A finger that is lifted leaves the figure: the value under it stays until another place is touched.
  figure.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") hide(); });
  document.addEventListener("pointerdown", (event) => { if (!figure.contains(event.target)) hide(); });
  figure.addEventListener("blur", hide);
  window.addEventListener("resize", hide);
  figure.addEventListener("keydown", (event) => {
    if (event.target !== figure || event.ctrlKey || event.metaKey || event.altKey) return;
    const move = { ArrowRight: at + 1, ArrowLeft: at < 0 ? -1 : at - 1, Home: 0, End: Infinity }[event.key];
    if (event.key === "Escape") { hide(); return; }
    if (move === undefined) return;
    event.preventDefault();
    if (!frame || frame.hasAttribute("hidden")) choose(visible());
    show(Math.max(0, Math.min(move === -1 ? stops.length - 1 : move, stops.length - 1)));
  });
  // The words of the marks are in the box: the browser would show them a second time.
  for (const mark of figure.querySelectorAll("circle, rect")) {
    const title = mark.querySelector("title");
    if (title) { mark.dataset.title = title.textContent; title.remove(); }
  }
  figure.setAttribute("aria-label", `${figure.getAttribute("aria-label")}. Arrow keys read the values.`);
  enableScales(figure, () => { hide(); frame = null; });
}

function enableScales(figure, changed) {
  const button = figure.querySelector("button[data-scales]");
  if (!button) return;
  const names = button.dataset.scales.split(" "), label = figure.getAttribute("aria-label");

  function draw(name) {
    for (const svg of figure.querySelectorAll("svg[data-scale]")) svg.toggleAttribute("hidden", svg.dataset.scale !== name);
    const other = names.find((each) => each !== name);
    button.textContent = `${other[0].toUpperCase()}${other.slice(1)} scale`;
    button.dataset.now = name;
    changed();
  }

  button.hidden = false;
  button.addEventListener("click", () => {
    const name = names.find((each) => each !== button.dataset.now);
    scales.set(label, name);
    draw(name);
  });
  draw(scales.get(label) || names[0]);
}

function enableAll() {
  for (const figure of document.querySelectorAll(CHARTS)) if (!figure.dataset.reads) enable(figure);
}

enableAll();
document.addEventListener("assay:swapped", enableAll);
