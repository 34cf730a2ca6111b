// Single-key shortcuts: an element with data-key="j" is clicked (a link or button) or focused (a field) by that key; with
// data-key="4 d" by either of them.
// `?` lists them; they can be switched off (WCAG 2.2, 2.1.4).  Every page works without them.
"use strict";

(() => {
  const STORED = "assay.keys";
  const on = () => { try { return localStorage.getItem(STORED) !== "off"; } catch { return true; } };
  const keys = (target) => target.dataset.key.split(" ");
  const keyed = () => Array.from(document.querySelectorAll("[data-key]"));
  const typing = (element) => element.closest("textarea, select, [contenteditable], input:not([type=checkbox]):not([type=radio])");

  function act(element) {
    if (element.matches("input[type=radio], input[type=checkbox]")) {
      element.click();
      const next = document.getElementById(element.dataset.next || "");
      (next || element).focus();
    } else if (element.matches("input, select, textarea")) {
      element.focus();
    } else {
      // A dialog gives the focus back to where it was before.
      if (!element.matches("[data-search]")) element.focus({ preventScroll: true });
      element.click();
    }
  }

  function element(name, text, attributes = {}) {
    const made = document.createElement(name);
    if (text) made.textContent = text;
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  }

  function label(target) {
    return target.dataset.keyLabel || target.getAttribute("aria-label") || target.textContent.trim().replace(/\s+/g, " ");
  }

  function rowKeys() {
    if (!document.querySelector("table.list tbody a") || keyed().some((each) => keys(each).includes("j"))) return [];
    return [["j", "next row of a list"], ["k", "previous row of a list"]].map(([key, keyLabel]) => ({ dataset: { key, keyLabel } }));
  }

  function help() {
    const dialog = element("dialog", "", { class: "keys", "aria-labelledby": "keys-title" });
    dialog.append(element("h2", "Keys of this page", { id: "keys-title" }));
    const list = element("dl", "", { class: "pairs" });
    for (const target of [...keyed(), ...rowKeys(), { dataset: { key: "?", keyLabel: "this list" } }]) {
      const term = element("dt");
      keys(target).forEach((key, place) => term.append(place ? " or " : "", element("kbd", key)));
      list.append(term, element("dd", label(target)));
    }
    const form = element("form", "", { method: "dialog", class: "actions" });
    const box = element("label");
    const check = element("input", "", { type: "checkbox" });
    check.checked = on();
    check.addEventListener("change", () => { try { localStorage.setItem(STORED, check.checked ? "on" : "off"); } catch { /* not kept */ } });
    box.append(check, " single-key shortcuts");
    form.append(box, element("button", "Close", { class: "button", autofocus: "" }));
    dialog.append(list, form);
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
  }

  // Rows of a list by their first link, where no element has these keys.
  function row(step) {
    const links = Array.from(document.querySelectorAll("table.list tbody tr")).map((each) => each.querySelector("a")).filter(Boolean);
    const at = links.findIndex((link) => link.closest("tr").contains(document.activeElement));
    const next = links[Math.max(0, Math.min(at + step, links.length - 1))];
    next?.focus();
    return Boolean(next);
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || document.querySelector("dialog[open]")) return;
    if (event.key === "Escape" && typing(event.target)) { event.target.blur(); return; }
    if (typing(event.target)) return;
    if (event.key === "?") { event.preventDefault(); help(); return; }
    if (!on()) return;
    const target = keyed().find((each) => keys(each).includes(event.key) && !each.hidden);
    if (target) { event.preventDefault(); act(target); return; }
    if ((event.key === "j" || event.key === "k") && row(event.key === "j" ? 1 : -1)) event.preventDefault();
  });

  // Boxes that scroll sideways can be focused, so that arrow keys move it; heads of tables that fit stay on the screen.
  function lay() {
    for (const region of document.querySelectorAll(".scroll")) {
      region.classList.remove("fits", "tall");
      const wide = region.scrollWidth > region.clientWidth;
      if (wide && !region.hasAttribute("tabindex")) region.tabIndex = 0;
      if (region.querySelector("table.list")) region.classList.add(wide ? "tall" : "fits");
      shade(region);
    }
  }

  // A table that goes on to the right fades there.
  function shade(region) {
    region.classList.toggle("more", region.scrollWidth - region.clientWidth - region.scrollLeft > 2);
  }
  document.addEventListener("scroll", (event) => { if (event.target.classList?.contains("scroll")) shade(event.target); }, true);
  lay();
  window.addEventListener("resize", lay);
  document.addEventListener("assay:swapped", lay);

  const opener = document.querySelector("button[data-keys]");
  if (opener && keyed().length) {
    opener.addEventListener("click", help);
    opener.hidden = false;
  }
})();
