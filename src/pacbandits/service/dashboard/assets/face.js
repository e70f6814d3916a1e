// The face, light or dark: the system's, or the one that was chosen last. Loaded before the page is drawn.
"use strict";
(() => {
  const root = document.documentElement;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const KEY = "pacbandits-face";

  function kept() {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null; // a browser that keeps nothing
    }
  }

  function face() {
    const chosen = kept();
    return chosen === "dark" || chosen === "light" ? chosen : dark.matches ? "dark" : "light";
  }

  function show() {
    root.dataset.face = face();
    const button = document.getElementById("face");
    if (button) button.textContent = face() === "dark" ? "Light face" : "Dark face";
  }

  root.classList.add("has-script");
  show();
  dark.addEventListener("change", show);
  document.addEventListener("DOMContentLoaded", () => {
    show();
    document.getElementById("face")?.addEventListener("click", () => {
      const next = face() === "dark" ? "light" : "dark";
      try {
        localStorage.setItem(KEY, next);
        show();
      } catch {
        root.dataset.face = next;
      }
    });
  });
})();
