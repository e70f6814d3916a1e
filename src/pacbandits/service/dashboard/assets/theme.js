// The theme, light or dark: the system's, or the one that was chosen last. Loaded before the page is drawn.
"use strict";
(() => {
  const root = document.documentElement;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const KEY = "pacbandits-theme";

  function kept() {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null; // a browser that keeps nothing
    }
  }

  function theme() {
    const chosen = kept();
    return chosen === "dark" || chosen === "light" ? chosen : dark.matches ? "dark" : "light";
  }

  function show() {
    root.dataset.theme = theme();
    const button = document.getElementById("theme");
    if (button) button.textContent = theme() === "dark" ? "Light theme" : "Dark theme";
  }

  root.classList.add("has-script");
  show();
  dark.addEventListener("change", show);
  document.addEventListener("DOMContentLoaded", () => {
    show();
    document.getElementById("theme")?.addEventListener("click", () => {
      const next = theme() === "dark" ? "light" : "dark";
      try {
        localStorage.setItem(KEY, next);
        show();
      } catch {
        root.dataset.theme = next;
      }
    });
  });
})();
