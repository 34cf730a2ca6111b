// Lists with ticks: tick all on a page, say how many are ticked, tick no more than go together.
"use strict";

(() => {
  const form = document.querySelector("form[data-most]");
  if (!form) return;
  const boxes = Array.from(form.querySelectorAll("tbody input[type=checkbox]"));
  const count = form.querySelector("[data-count]"), button = form.querySelector("button[type=submit]");

  function refresh() {
    const ticked = boxes.filter((box) => box.checked).length;
    for (const box of boxes) box.disabled = !box.checked && ticked >= Number(form.dataset.most);
    count.textContent = ticked ? `${ticked} selected:` : "Select runs to…";
    button.disabled = ticked < 2;
  }

  form.addEventListener("change", refresh);
  window.addEventListener("pageshow", refresh);
  refresh();
})();

(() => {
  const form = document.querySelector("[data-grid]");
  if (!form) return;
  const all = form.querySelector("[data-all]");
  const count = form.querySelector("[data-count]");
  const boxes = Array.from(form.querySelectorAll("input[name=id]"));

  function refresh() {
    const ticked = boxes.filter((box) => box.checked).length;
    all.checked = ticked === boxes.length;
    all.indeterminate = ticked > 0 && ticked < boxes.length;
    count.textContent = ticked ? `${ticked} selected:` : "Select rows to…";
    for (const button of form.querySelectorAll("button[name=action]")) {
      button.disabled = ticked === 0 || (button.value === "compare" && ticked !== 2);
    }
  }

  all.hidden = false;
  all.addEventListener("change", () => { for (const box of boxes) box.checked = all.checked; refresh(); });
  form.addEventListener("change", refresh);
  window.addEventListener("pageshow", refresh);
  refresh();
})();
