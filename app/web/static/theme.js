// The reader's theme: the system's, light or dark.  A cookie keeps the choice, so that the server sends pages in it.
"use strict";

(() => {
  const THEMES = ["system", "light", "dark"];
  const YEAR_S = 31536000;
  const root = document.documentElement;
  const button = document.querySelector("button[data-theme-choice]");
  if (!button) return;

  const chosen = () => root.dataset.theme || THEMES[0];

  function show() {
    const next = THEMES[(THEMES.indexOf(chosen()) + 1) % THEMES.length];
    button.textContent = `Theme: ${chosen()}`;
    button.title = `Change to ${next}`;
  }

  button.addEventListener("click", () => {
    const next = THEMES[(THEMES.indexOf(chosen()) + 1) % THEMES.length];
    const isSystem = next === THEMES[0];
    if (isSystem) delete root.dataset.theme; else root.dataset.theme = next;
    document.cookie = `theme=${isSystem ? "" : next}; path=/; max-age=${isSystem ? 0 : YEAR_S}; samesite=strict`;
    show();
    document.dispatchEvent(new Event("assay:theme"));
  });
  show();
  button.hidden = false;
})();
