// Draws Chrome trace events on a canvas: a lane for each thread and depth, zoom and pan, and a table of totals.
"use strict";

(() => {
  const root = document.getElementById("timeline");
  if (!root) return;
  const canvas = root.querySelector("canvas");
  const status = root.querySelector("[data-status]");
  const detail = root.querySelector("[data-detail]");
  const ROW = 20, HEAD = 22, LABEL = 18, TOP_NAMES = 25, TICK = 90;
  let lanes = [], begin = 0, end = 1, from = 0, to = 1, hover = null;

  const unit = (us) => us < 1 ? `${(us * 1000).toFixed(0)} ns` : us < 1000 ? `${us.toFixed(1)} µs` : us < 1e6 ? `${(us / 1000).toFixed(2)} ms` : `${(us / 1e6).toFixed(2)} s`;
  // Colours are `light-dark()`, which a canvas does not resolve: an element does.
  function colour(name) {
    canvas.style.color = `var(${name})`;
    return getComputedStyle(canvas).color;
  }

  // Bytes are counted as they come: a large profile shows that it is on its way.
  async function load() {
    const response = await fetch(root.dataset.source);
    if (!response.ok) throw new Error(`the server answers ${response.status}`);
    const total = Number(root.dataset.bytes);
    const pieces = [];
    let read = 0;
    const reader = response.body.getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      pieces.push(value);
      read += value.length;
      status.textContent = `Loading: ${(read / 1048576).toFixed(1)} of ${(total / 1048576).toFixed(1)} MiB`;
    }
    return JSON.parse(await new Blob(pieces).text());
  }

  // Names of processes and threads (streams of a GPU among them) are metadata events of the trace.
  function named(all) {
    const names = new Map();
    for (const event of all) {
      if (event.ph !== "M" || !event.args?.name) continue;
      if (event.name === "process_name") names.set(`${event.pid}`, event.args.name);
      if (event.name === "thread_name") names.set(`${event.pid}/${event.tid}`, event.args.name);
    }
    return (pid, tid) => {
      const thread = names.get(`${pid}/${tid}`) || (/[a-z]/i.test(`${tid}`) ? `${tid}` : `thread ${tid}`);
      return `${names.get(`${pid}`) || `process ${pid}`} · ${thread}`;
    };
  }

  // The first row holds stages, which the file calls by the names of the code.
  const STAGES = JSON.parse(root.dataset.stages);
  const STAGE_ROW = 1;

  function lay(trace) {
    const all = Array.isArray(trace) ? trace : trace.traceEvents || [];
    for (const event of all) {
      if (event.ph === "X" && event.tid === STAGE_ROW && Object.hasOwn(STAGES, event.name)) event.name = STAGES[event.name];
    }
    const label = named(all);
    const events = all
      .filter((event) => event.ph === "X" && Number.isFinite(event.ts) && Number.isFinite(event.dur));
    events.sort((a, b) => a.ts - b.ts || b.dur - a.dur);
    const tracks = new Map();
    for (const event of events) {
      const key = label(event.pid, event.tid);
      if (!tracks.has(key)) tracks.set(key, []);
      const rows = tracks.get(key);
      let row = rows.find((each) => each.free <= event.ts);
      if (!row) rows.push(row = { free: 0, events: [] });
      row.free = event.ts + event.dur;
      row.events.push(event);
    }
    lanes = [];
    const order = new Map(events.map((event) => [label(event.pid, event.tid), Number(event.tid)]));
    const sorted = Array.from(tracks).sort(([a], [b]) => (order.get(a) - order.get(b)) || 0);
    for (const [key, rows] of sorted) {
      lanes.push({ label: key });
      lanes.push(...rows);
    }
    begin = events.length ? events[0].ts : 0;
    end = events.reduce((last, event) => Math.max(last, event.ts + event.dur), begin + 1);
    [from, to] = [begin, end];
    status.textContent = `${events.length.toLocaleString("en")} event${events.length === 1 ? "" : "s"} over ${unit(end - begin)}`;
    total(events);
  }

  function total(events) {
    const sums = new Map();
    for (const event of events) {
      const sum = sums.get(event.name) || { count: 0, total: 0, longest: 0 };
      sum.count += 1;
      sum.total += event.dur;
      sum.longest = Math.max(sum.longest, event.dur);
      sums.set(event.name, sum);
    }
    const body = document.querySelector("#timeline-events tbody");
    for (const [name, sum] of Array.from(sums).sort((a, b) => b[1].total - a[1].total).slice(0, TOP_NAMES)) {
      const row = body.insertRow();
      const head = document.createElement("th");
      head.scope = "row";
      head.className = "kernel";
      head.textContent = name;
      row.append(head);
      for (const text of [sum.count.toLocaleString("en"), unit(sum.total), unit(sum.longest)]) {
        const cell = row.insertCell();
        cell.className = "number";
        cell.textContent = text;
      }
    }
  }

  const x = (ts) => (ts - from) / (to - from) * canvas.clientWidth;

  function first(events, ts) {
    let [low, high] = [0, events.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (events[middle].ts + events[middle].dur < ts) low = middle + 1; else high = middle;
    }
    return low;
  }

  function draw() {
    const scale = window.devicePixelRatio || 1;
    const height = HEAD + lanes.reduce((sum, lane) => sum + (lane.label ? LABEL : ROW), 0) + 6;
    canvas.style.height = `${height}px`;
    canvas.width = canvas.clientWidth * scale;
    canvas.height = height * scale;
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    pen.font = `11px ${getComputedStyle(canvas).fontFamily}`;
    pen.textBaseline = "middle";
    const [text, muted, line, card] = [colour("--text"), colour("--muted"), colour("--line"), colour("--card")];
    const fills = ["--plot-0", "--plot-1", "--plot-2", "--plot-3", "--plot-4", "--plot-5"].map(colour);
    const ticks = Math.max(2, Math.min(6, Math.floor(canvas.clientWidth / TICK)));
    for (let tick = 0; tick <= ticks; tick += 1) {
      const at = canvas.clientWidth * tick / ticks;
      pen.fillStyle = line;
      pen.fillRect(at, HEAD - 4, 1, height);
      pen.fillStyle = muted;
      pen.textAlign = tick === 0 ? "left" : tick === ticks ? "right" : "center";
      pen.fillText(unit(from - begin + (to - from) * tick / ticks), tick === 0 ? 4 : tick === ticks ? at - 4 : at, HEAD / 2);
    }
    pen.textAlign = "left";
    let top = HEAD;
    for (const lane of lanes) {
      lane.top = top;
      if (lane.label) {
        pen.fillStyle = muted;
        pen.fillText(lane.label, 4, top + LABEL / 2);
        top += LABEL;
        continue;
      }
      let drawnTo = -1;
      for (let index = first(lane.events, from); index < lane.events.length && lane.events[index].ts <= to; index += 1) {
        const event = lane.events[index];
        const [left, right] = [Math.max(0, x(event.ts)), Math.min(canvas.clientWidth, x(event.ts + event.dur))];
        if (right - left < 0.5 && left < drawnTo + 0.5) continue;  // thousands in one pixel are one stroke
        drawnTo = right;
        let hash = 0;
        for (const character of event.name) hash = (hash * 31 + character.codePointAt(0)) >>> 0;
        pen.fillStyle = event === hover ? text : fills[hash % fills.length];
        pen.fillRect(left, top + 1, Math.max(1, right - left - 0.5), ROW - 2);
        if (right - left > 40) {
          pen.save();
          pen.beginPath();
          pen.rect(left, top, right - left - 4, ROW);
          pen.clip();
          pen.fillStyle = card;
          pen.fillText(event.name, left + 4, top + ROW / 2);
          pen.restore();
        }
      }
      top += ROW;
    }
  }

  let asked = false;
  function redraw() {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => { asked = false; draw(); });
  }

  function zoom(factor, at = 0.5) {
    const middle = from + (to - from) * at;
    const width = Math.min(end - begin, Math.max((end - begin) / 1e6, (to - from) * factor));
    move(middle - width * at, width);
  }

  function move(start, width = to - from) {
    from = Math.min(Math.max(begin, start), end - width);
    to = from + width;
    redraw();
  }

  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, event.offsetX / canvas.clientWidth);
  }, { passive: false });
  let grabbed = null;
  canvas.addEventListener("pointerdown", (event) => { grabbed = { x: event.offsetX, from }; canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener("pointerup", () => { grabbed = null; });
  canvas.addEventListener("pointermove", (event) => {
    if (grabbed) { move(grabbed.from - (event.offsetX - grabbed.x) / canvas.clientWidth * (to - from)); return; }
    const lane = lanes.find((each) => !each.label && event.offsetY >= each.top && event.offsetY < each.top + ROW);
    const ts = from + event.offsetX / canvas.clientWidth * (to - from);
    const found = lane && lane.events[first(lane.events, ts)];
    hover = found && found.ts <= ts ? found : null;
    detail.textContent = hover ? `${hover.name}: ${unit(hover.dur)} from ${unit(hover.ts - begin)}` : "\u00a0";
    redraw();
  });
  canvas.addEventListener("keydown", (event) => {
    const act = {
      ArrowLeft: () => move(from - (to - from) / 5), ArrowRight: () => move(from + (to - from) / 5),
      "+": () => zoom(0.6), "-": () => zoom(1.6), "0": () => { [from, to] = [begin, end]; redraw(); },
    }[event.key];
    if (act) { event.preventDefault(); event.stopPropagation(); act(); }
  });
  window.addEventListener("resize", redraw);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  document.addEventListener("assay:theme", redraw);

  // Perfetto's page takes a trace from the page that opened it; the trace stays in this browser.
  const PERFETTO = "https://ui.perfetto.dev";
  const opener = document.querySelector("[data-perfetto]");
  opener?.addEventListener("click", async () => {
    const page = window.open(PERFETTO);
    if (!page) { status.textContent = "The browser blocked the window."; return; }
    const buffer = await (await fetch(root.dataset.source)).arrayBuffer();
    const ask = setInterval(() => page.postMessage("PING", PERFETTO), 100);
    setTimeout(() => clearInterval(ask), 30000);
    window.addEventListener("message", function answered(event) {
      if (event.origin !== PERFETTO || event.data !== "PONG") return;
      clearInterval(ask);
      window.removeEventListener("message", answered);
      page.postMessage({ perfetto: { buffer, title: document.title } }, PERFETTO);
    });
  });
  if (opener) opener.hidden = false;

  load().then((trace) => { lay(trace); draw(); root.dataset.drawn = "yes"; })
    .catch((error) => { status.textContent = `The timeline could not be drawn: ${error.message}`; });
})();
