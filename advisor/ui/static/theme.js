// Before anything is drawn: the choice between light and dark that was made in this browser, if one was.
(() => {
  "use strict";
  const chosen = localStorage.getItem("cohabit-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
