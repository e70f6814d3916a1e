// Keeps a page new: asks every few seconds for its parts, and replaces those that changed. Nothing is asked for while
// the page is hidden or was told to stand still, and nothing is sent again that the page has already.
"use strict";
(() => {
  const parts = document.getElementById("parts");
  const pulse = document.getElementById("pulse");
  const hold = document.getElementById("hold");
  const news = document.getElementById("news");
  const seconds = Number(parts.dataset.seconds) || 4;
  const MAX_WAIT_SECONDS = 60;
  let etag = parts.dataset.etag;
  let told = parts.dataset.news;
  let failures = 0;
  let timer = 0;
  let held = false;
  let over = false;
  let asking = false;

  function say(words, kind) {
    if (pulse.textContent !== words) pulse.textContent = words;
    pulse.className = kind;
  }

  // What is open stays open, and what has the focus keeps it, though it is made anew.
  function replace(old, fresh) {
    if (old.outerHTML === fresh.outerHTML) return true;
    const chosen = window.getSelection();
    if (!chosen.isCollapsed && old.contains(chosen.anchorNode)) return false; // somebody is about to copy it
    const open = [...old.querySelectorAll("details[open][id]")].map((one) => one.id);
    const before = JSON.stringify(open);
    for (const one of fresh.querySelectorAll("details[id]")) if (open.includes(one.id)) one.open = true;
    if (before !== "[]" && old.outerHTML === fresh.outerHTML) return true;
    const active = old.contains(document.activeElement) ? document.activeElement : null;
    const path = active && placeOf(active, old);
    old.replaceWith(fresh);
    if (path) at(path, fresh)?.focus({ preventScroll: true });
    return true;
  }

  // Where an element is found again: by its name, or as the n-th one that can have the focus.
  const FOCUSABLE = "a[href], button, summary, [tabindex='0']";
  function placeOf(element, within) {
    return element.id ? { id: element.id } : { index: [...within.querySelectorAll(FOCUSABLE)].indexOf(element) };
  }
  function at(place, within) {
    if (place.id) return within.id === place.id ? within : within.querySelector(`#${CSS.escape(place.id)}`);
    return within.querySelectorAll(FOCUSABLE)[place.index];
  }

  // Times are in UTC without the script, and in the reader's own zone with it; the title keeps the other.
  function localise(within) {
    for (const one of within.querySelectorAll("time[datetime]")) {
      one.title = one.textContent;
      one.textContent = new Date(one.dateTime).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
    }
  }
  localise(parts);

  function take(html) {
    const fresh = new DOMParser().parseFromString(html, "text/html").body.firstElementChild;
    localise(fresh);
    const there = [...parts.querySelectorAll(":scope > [id], :scope > .parts > [id]")];
    for (const old of there) {
      const match = fresh.querySelector(`:scope > #${CSS.escape(old.id)}, :scope > .parts > #${CSS.escape(old.id)}`);
      if (match && !replace(old, match)) etag = ""; // to be asked for again
    }
    const now = fresh.dataset.news;
    if (now && now !== told) news.textContent = now;
    told = now;
  }

  async function ask() {
    if (asking || held || over || document.hidden) return;
    asking = true;
    window.clearTimeout(timer);
    try {
      const answer = await fetch(parts.dataset.source, { headers: { "If-None-Match": etag }, cache: "no-store" });
      if (answer.status === 401 || answer.status === 404) {
        over = true;
        hold.hidden = true;
        say(answer.status === 401 ? "Signed out; reload to sign in again" : "No longer there", "lost");
        return;
      }
      if (answer.status !== 304) {
        if (!answer.ok) throw new Error(`status ${answer.status}`);
        const html = await answer.text();
        etag = answer.headers.get("ETag") ?? "";
        take(html);
      }
      failures = 0;
      say("Live", "well");
    } catch {
      failures += 1;
      say("No answer from the server; trying again", "lost");
    } finally {
      asking = false;
      if (!over) timer = window.setTimeout(ask, 1000 * Math.min(seconds * 2 ** failures, MAX_WAIT_SECONDS));
    }
  }

  hold.addEventListener("click", () => {
    held = !held;
    hold.textContent = held ? "Go on updating" : "Stop updating";
    window.clearTimeout(timer);
    if (held) say("Standing still", "held");
    else ask();
  });

  document.addEventListener("visibilitychange", () => {
    window.clearTimeout(timer);
    if (!document.hidden) ask();
  });

  document.addEventListener("click", async (event) => {
    const button = event.target.closest?.("[data-copy]");
    if (!button) return;
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      news.textContent = "Copied.";
      button.textContent = "Copied";
    } catch {
      // Not allowed here: select it, so that a key press copies it.
      window.getSelection().selectAllChildren(button.parentElement.querySelector("code"));
      news.textContent = "Selected; copy it with the keyboard.";
      button.textContent = "Selected";
    }
    window.setTimeout(() => (button.textContent = "Copy"), 2000);
  });

  say("Live", "well");
  timer = window.setTimeout(ask, 1000 * seconds);
})();
