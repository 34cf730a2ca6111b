// Assay's script: relative times, copying, tidy filter URLs and a live overview.  Every page reads without it.
"use strict";

(() => {
  const LIVE_MS = 2000;
  const LISTEN_MS = 10000;
  const COUNT_MS = 350;
  const SENT_MS = 10000;
  const CHARTS = document.currentScript.dataset.charts;

  // The same coarse wording as app/web/formatting.py.
  function ago(then) {
    const seconds = Math.max(0, Math.floor((Date.now() - then) / 1000));
    for (const [limit, divisor, unit] of [[90, 1, "s"], [5400, 60, "min"], [129600, 3600, "h"]]) {
      if (seconds < limit) return `${Math.floor(seconds / divisor)} ${unit}`;
    }
    return `${Math.floor(seconds / 86400)} d`;
  }

  // A moment in the reader's time zone, written as app/web/formatting.py writes it in UTC.
  function local(moment) {
    const two = (number) => String(number).padStart(2, "0");
    const date = [moment.getFullYear(), two(moment.getMonth() + 1), two(moment.getDate())].join("-");
    const time = [moment.getHours(), moment.getMinutes(), moment.getSeconds()].map(two).join(":");
    return `${date} ${time} ${zone(moment)}`;
  }

  function zone(moment) {
    const parts = new Intl.DateTimeFormat("en", { timeZoneName: "short" }).formatToParts(moment);
    return parts.find((part) => part.type === "timeZoneName").value;
  }

  function localise() {
    if (zone(new Date()) === "UTC") return;
    const note = document.querySelector("[data-zone]");
    if (note) note.textContent = `Times in ${zone(new Date())}, UTC in tooltips and charts. “–” means not measured.`;
    for (const element of document.querySelectorAll("time:not([data-localised])")) {
      const text = local(new Date(element.dateTime));
      if (element.dataset.local === undefined) element.title = `${text} (${element.title})`;
      else element.textContent = text;
      element.dataset.localised = "";
    }
  }

  function refreshTimes() {
    localise();
    for (const element of document.querySelectorAll("time[data-ago]")) {
      const text = ago(Date.parse(element.dateTime)) + (element.dataset.ago === "since" ? "" : " ago");
      if (element.textContent !== text) element.textContent = text;
    }
  }

  // On a phone the navigation is one row that scrolls: the current page is in sight.
  function showCurrent() {
    const row = document.querySelector(".top nav");
    const link = row && row.querySelector("[aria-current]");
    if (link) row.scrollLeft = link.offsetLeft - row.offsetLeft - (row.clientWidth - link.offsetWidth) / 2;
  }

  function enableCopying() {
    for (const button of document.querySelectorAll("button[data-copy]")) {
      if (!navigator.clipboard) continue;  // only in secure contexts: https or localhost
      button.hidden = false;
      button.addEventListener("click", async () => {
        const source = document.getElementById(button.dataset.copy);
        const lines = Array.from(source.querySelectorAll("td:last-child"), (line) => line.textContent);
        const label = button.textContent;
        try {
          await navigator.clipboard.writeText(lines.length ? `${lines.join("\n")}\n` : source.textContent);
          button.textContent = "Copied";
        } catch {
          button.textContent = "Not allowed";
        }
        setTimeout(() => { button.textContent = label; }, 1500);
      });
    }
  }

  // Empty fields stay out of the URL, so that it holds the query and no more.
  function tidyForms() {
    for (const form of document.querySelectorAll("form[data-tidy]")) {
      form.addEventListener("submit", () => {
        for (const field of form.querySelectorAll("input, select")) field.disabled = field.value === "";
      });
    }
    window.addEventListener("pageshow", (event) => {
      for (const field of document.querySelectorAll("form[data-tidy] :disabled")) field.disabled = false;
      // The browser puts back what was chosen on a page that was left: a filter shows what its list was made with.
      const isBack = event.persisted || performance.getEntriesByType("navigation")[0]?.type === "back_forward";
      if (isBack) for (const form of document.querySelectorAll("form[method=get][data-tidy]")) form.reset();
    });
  }

  // A form that changes something is sent once: a second click within the wait for its answer does nothing.
  function sendOnce() {
    document.addEventListener("submit", (event) => {
      const form = event.target;
      if (event.defaultPrevented || form.method !== "post") return;
      if (form.dataset.sent) { event.preventDefault(); return; }
      form.dataset.sent = "yes";
      setTimeout(() => { delete form.dataset.sent; }, SENT_MS);
    });
    window.addEventListener("pageshow", () => {
      for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
    });
  }

  // The rail of turns shows the turn that the page is about.
  function showCurrentTurn() {
    const rail = document.querySelector(".turns");
    const link = rail?.querySelector("[aria-current]");
    if (!link) return;
    const outer = rail.getBoundingClientRect(), inner = link.getBoundingClientRect();
    rail.scrollTop += inner.top - outer.top - (outer.height - inner.height) / 2;
    rail.scrollLeft += inner.left - outer.left - (outer.width - inner.width) / 2;
  }

  // A stream of events says when something changed; where there is none, the page asks every few seconds.
  function enableLive() {
    const region = document.querySelector("[data-live]");
    const button = document.querySelector("button[data-pause]");
    if (!region || !button) return;
    let paused = false, busy = false, again = false, streaming = false, held = false;
    let etag = region.dataset.etag;
    const label = button.querySelector("span"), usual = button.title;

    function say(text) {
      if (label.textContent !== text) label.textContent = text;
    }

    async function refresh() {
      if (paused || document.hidden) { again = true; return; }
      if (busy) { again = true; return; }
      busy = true;
      again = false;
      try {
        const response = await fetch(region.dataset.live, { headers: { "If-None-Match": `"${etag}"` }, cache: "no-store" });
        held = response.status === 200 && !swap(await response.text());
        if (response.status === 200 && !held) etag = response.headers.get("ETag").replaceAll('"', "");
        say(held ? "Held" : response.ok || response.status === 304 ? "Live" : "Not reachable");
        button.title = held ? "Changes are shown when the focus leaves the field or chart" : usual;
      } catch {
        say("Not reachable");
      }
      busy = false;
      if (again) refresh();
    }

    // Elements of this kind, of which a link is told by its address.
    function alike(root, element) {
      const same = (other) => other.getAttribute("href") === element.getAttribute("href");
      return Array.from(root.querySelectorAll(element.tagName)).filter(same);
    }

    // False, and nothing is swapped, where the focus is on what would be lost: a field, a chart that is read, a link that is gone.
    function swap(markup) {
      const open = Array.from(region.querySelectorAll("details"), (details) => details.open);
      const page = new DOMParser().parseFromString(markup, "text/html");
      const focused = region.contains(document.activeElement) ? document.activeElement : null;
      const follows = focused && alike(page, focused)[alike(region, focused).indexOf(focused)];
      if (focused && (!follows || focused.matches("input, select, textarea, figure"))) return false;
      const state = page.querySelector("[data-state]");
      if (state && state.dataset.state !== region.querySelector("[data-state]")?.dataset.state) {
        location.reload();  // the rest of the page shows the change
        return true;
      }
      region.replaceChildren(...page.body.childNodes);
      follows?.focus({ preventScroll: true });
      showCurrentTurn();
      region.querySelectorAll("details").forEach((details, place) => { details.open = open[place] ?? false; });
      refreshTimes();
      document.dispatchEvent(new Event("assay:swapped"));
      return true;
    }

    function listen() {
      if (!region.dataset.topics || !window.EventSource) return;
      const events = new EventSource(`/live?topics=${encodeURIComponent(region.dataset.topics)}`);
      events.onmessage = () => { streaming = true; refresh(); };
      events.onerror = () => { streaming = false; if (events.readyState === EventSource.CLOSED) setTimeout(listen, LISTEN_MS); };
      window.addEventListener("pagehide", () => events.close());
      window.addEventListener("pageshow", (event) => { if (event.persisted) listen(); }, { once: true });
    }

    button.hidden = false;
    button.addEventListener("click", () => {
      paused = !paused;
      button.setAttribute("aria-pressed", String(paused));
      say(paused ? "Paused" : "Live");
      if (!paused) refresh();
    });
    document.addEventListener("visibilitychange", () => { if (again) refresh(); });
    region.addEventListener("focusout", () => setTimeout(() => { if (held) refresh(); }));
    listen();
    setInterval(() => { if (!streaming) refresh(); }, LIVE_MS);
  }

  function isChanged(field) {
    if (!field.options) return field.value !== field.defaultValue;
    return field.selectedIndex !== Math.max(0, Array.from(field.options).findIndex((option) => option.defaultSelected));
  }

  // Rows that a selection leaves are counted while it is being written, the newest few first.  Buttons send the form itself.
  function enableFunnel() {
    const form = document.querySelector("form[data-funnel]");
    const shown = document.getElementById("funnel");
    if (!form || !shown) return;
    let timer = 0, asked = 0;
    async function ask(query, mine, first) {
      const response = await fetch(`${form.dataset.funnel}?${query}${first ? "&first=yes" : ""}`, { redirect: "error" })
        .catch(() => null);
      const markup = response?.ok ? await response.text() : null;
      if (mine !== asked) return false;
      if (markup === null) {
        const said = response ? `status ${response.status}` : "no answer";
        shown.replaceChildren(Object.assign(document.createElement("p"), { className: "notice break", role: "alert",
          textContent: `Not counted (${said}). “Count” asks again.` }));
      } else {
        shown.replaceChildren(...new DOMParser().parseFromString(markup, "text/html").body.childNodes);
        history.replaceState(null, "", `?${query}`);
      }
      return markup !== null;
    }
    async function count() {
      const mine = ++asked;
      const query = new URLSearchParams(Array.from(new FormData(form)).filter(
        ([name, value]) => value !== "" && !name.includes("csrf")));
      shown.setAttribute("aria-busy", "true");
      if (await ask(query, mine, true)) await ask(query, mine, false);
      if (mine === asked) shown.removeAttribute("aria-busy");
    }
    const soon = () => { clearTimeout(timer); timer = setTimeout(count, COUNT_MS); };
    form.addEventListener("input", soon);
    // Text that was there before this script ran, or that the browser put back, is counted, too.
    window.addEventListener("pageshow", () => {
      const fields = Array.from(form.querySelectorAll("input:not([type=hidden]), select"));
      if (shown.querySelector("[data-uncounted]") || fields.some(isChanged)) count();
    });
  }

  // Charts are drawn by the server; the script that reads their values comes after them.
  function enableCharts() {
    if (document.querySelector("figure.plot, figure.chart, figure.spark")) import(CHARTS);
  }

  enableFunnel();
  enableCharts();
  document.addEventListener("assay:swapped", enableCharts);
  refreshTimes();
  setInterval(refreshTimes, 1000);
  enableCopying();
  showCurrent();
  showCurrentTurn();
  tidyForms();
  sendOnce();
  enableLive();
})();
