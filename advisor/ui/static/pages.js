// What every page does: light or dark, keyboard shortcuts, and how htmx answers to refusals.
(() => {
  "use strict";
  const root = document.documentElement;
  const isDark = () =>
    root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;

  function switchTheme() {
    root.dataset.theme = isDark() ? "light" : "dark";
    localStorage.setItem("cohabit-theme", root.dataset.theme);
    document.dispatchEvent(new Event("cohabit:theme"));
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
    document.dispatchEvent(new Event("cohabit:theme")),
  );

  const keys = document.getElementById("keys");
  document.getElementById("theme").addEventListener("click", switchTheme);
  document.getElementById("help").addEventListener("click", () => keys.showModal());

  function toRow(step) {
    const rows = [...document.querySelectorAll("[data-row]")];
    const at = rows.indexOf(document.activeElement);
    rows[at < 0 ? 0 : Math.min(Math.max(at + step, 0), rows.length - 1)]?.focus();
  }

  const actions = {
    "?": () => keys.showModal(),
    "/": () => document.querySelector("[data-filter]")?.focus(),
    t: switchTheme,
    j: () => toRow(1),
    k: () => toRow(-1),
    a: () => document.querySelector("[data-approve]")?.focus(),
    r: () => document.querySelector("[data-reject]")?.focus(),
  };
  let after = "";
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || keys.open) return;
    if (event.target.closest("input:not([type=checkbox]), select, textarea, [contenteditable]")) return;
    if (after === "g") {
      document.querySelector(`nav a[data-key="${CSS.escape(event.key)}"]`)?.click();
      after = "";
    } else if (event.key === "g") {
      after = "g";
    } else if (actions[event.key]) {
      event.preventDefault();
      actions[event.key]();
    }
  });

  // a refusal is a whole page: it is shown as one, by loading again
  document.addEventListener("htmx:responseError", (event) => {
    if (!event.detail.xhr.getResponseHeader("HX-Redirect")) location.reload();
  });
})();
