"use strict";
// Filters the tests by words and by verdict; without it the page shows all of them.
(() => {
  const form = document.getElementById("filter");
  const words = document.getElementById("words");
  const matches = document.getElementById("matches");
  const nothing = document.getElementById("nothing");
  const tests = [...document.querySelectorAll("[data-verdict]")].map((node) => ({
    node,
    text: `${node.textContent} ${node.dataset.words ?? ""}`.toLowerCase(),
    verdicts: node.dataset.verdict.split("|"),
  }));
  // Inner groups first: an outer one counts what they show.
  const groups = [...document.querySelectorAll("[data-group], details.group")].map((node) => ({
    node,
    count: node.querySelector("[data-count]"),
    total: node.querySelectorAll("[data-verdict]").length,
    wasOpen: node.open,
  }));
  let filtering = false;

  const show = () => {
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const chosen = [...form.querySelectorAll("[name=verdict]:checked")].map((box) => box.value);
    const began = !filtering;
    filtering = wanted.length + chosen.length > 0;
    let found = 0;
    for (const test of tests) {
      const fits =
        wanted.every((word) => test.text.includes(word)) &&
        (chosen.length === 0 || test.verdicts.some((verdict) => chosen.includes(verdict)));
      test.node.hidden = !fits;
      found += fits;
    }
    for (const group of groups) {
      const left = group.node.querySelectorAll("[data-verdict]:not([hidden])").length;
      group.node.hidden = left === 0;
      if (group.count) group.count.textContent = left === group.total ? left : `${left} of ${group.total}`;
      if (group.node.matches("details")) {
        if (filtering && began) group.wasOpen = group.node.open;
        group.node.open = filtering ? left > 0 : group.wasOpen;
      }
    }
    for (const heading of document.querySelectorAll("[data-level]")) {
      let next = heading.nextElementSibling;
      let any = false;
      for (; next && !next.matches("[data-level]"); next = next.nextElementSibling) any ||= !next.hidden;
      heading.hidden = !any;
    }
    nothing.hidden = found > 0;
    const all = Number(matches.dataset.total);
    matches.textContent = filtering ? `${found} of ${all} tests match` : `${all} tests`;
  };

  const reveal = () => {
    const target = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
    if (!target) return;
    for (let node = target; node; node = node.parentElement) {
      if (node.matches("details")) node.open = true;
    }
    target.scrollIntoView();
  };

  form.addEventListener("input", show);
  form.addEventListener("reset", () => setTimeout(show));
  form.addEventListener("submit", (event) => event.preventDefault());
  addEventListener("hashchange", reveal);
  form.hidden = false;
  if (tests.length) show(); // a browser may have kept the words of an earlier visit
  reveal();
})();
