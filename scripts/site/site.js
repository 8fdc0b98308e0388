// Theme, menu, copy buttons, and the search: words in titles, headings and text; the index is loaded at the first use.
"use strict";

const root = document.body.dataset.root;
const themes = ["", "light", "dark"];
const themeButton = document.getElementById("theme");

function showTheme() {
  themeButton.textContent = { "": "Auto", light: "Light", dark: "Dark" }[document.documentElement.dataset.theme];
}
themeButton.addEventListener("click", () => {
  const next = themes[(themes.indexOf(document.documentElement.dataset.theme) + 1) % themes.length];
  document.documentElement.dataset.theme = next;
  localStorage.setItem("theme", next);
  showTheme();
});
showTheme();

document.getElementById("menu").addEventListener("click", (event) => {
  const open = document.querySelector("nav").classList.toggle("open");
  event.target.setAttribute("aria-expanded", open);
});

for (const block of document.querySelectorAll("pre")) {
  const button = document.createElement("button");
  button.className = "copy";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(block.querySelector("code").textContent);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  block.append(button);
}

const input = document.getElementById("search");
const found = document.getElementById("found");
let loading = null;

function index() {
  loading ??= new Promise((resolve) => {
    const script = document.createElement("script");
    script.src = root + "search.js";
    script.onload = () => resolve(window.searchIndex);
    document.head.append(script);
  });
  return loading;
}

// Every word has to occur; a heading counts more than text, a title more than a heading.
function score([title, heading, , text], words) {
  let sum = 0;
  for (const word of words) {
    const inTitle = title.toLowerCase().includes(word);
    const inHeading = heading.toLowerCase().includes(word);
    const count = Math.min(text.toLowerCase().split(word).length - 1, 5);
    if (!inTitle && !inHeading && count === 0) return 0;
    sum += (inTitle ? 8 : 0) + (inHeading ? 12 : 0) + count;
  }
  return sum;
}

function marked(text, words) {
  const span = document.createElement("span");
  const pattern = new RegExp("(" + words.map((w) => w.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|") + ")", "gi");
  text.split(pattern).forEach((part, i) => {
    const node = i % 2 ? document.createElement("mark") : document.createElement("span");
    node.textContent = part;
    span.append(node);
  });
  return span;
}

function excerpt(text, words) {
  const at = Math.max(0, Math.min(...words.map((w) => text.toLowerCase().indexOf(w)).filter((i) => i >= 0), text.length) - 50);
  return (at > 0 ? "… " : "") + text.slice(at, at + 160) + (at + 160 < text.length ? " …" : "");
}

async function search() {
  const words = input.value.toLowerCase().split(/\s+/).filter((w) => w.length > 1);
  const sections = await index();
  const hits = words.length === 0 ? [] : sections.map((s) => [score(s, words), s]).filter(([n]) => n > 0)
    .sort((a, b) => b[0] - a[0]).slice(0, 12);
  found.replaceChildren();
  for (const [, [title, heading, address, text]] of hits) {
    const item = document.createElement("li");
    const link = document.createElement("a");
    link.href = root + address;
    link.append(marked(heading === title ? title : `${title}: ${heading}`, words));
    const small = document.createElement("small");
    small.append(marked(excerpt(text, words), words));
    link.append(small);
    item.append(link);
    found.append(item);
  }
  if (hits.length === 0 && words.length > 0) {
    const nothing = document.createElement("p");
    nothing.textContent = "Nothing found.";
    found.append(nothing);
  }
  found.hidden = words.length === 0;
}

input.addEventListener("input", search);
input.addEventListener("keydown", (event) => {
  const links = [...found.querySelectorAll("a")];
  const at = links.findIndex((l) => l.classList.contains("chosen"));
  if (event.key === "Escape") { input.value = ""; found.hidden = true; input.blur(); }
  if (event.key === "Enter" && links.length) links[Math.max(at, 0)].click();
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    if (at >= 0) links[at].classList.remove("chosen");
    const next = links[(at + (event.key === "ArrowDown" ? 1 : links.length - 1)) % links.length];
    next?.classList.add("chosen");
    next?.scrollIntoView({ block: "nearest" });
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== input) { event.preventDefault(); input.focus(); }
});
document.addEventListener("click", (event) => { if (!event.target.closest(".search")) found.hidden = true; });
const query = new URLSearchParams(location.search).get("q");
if (query) { input.value = query; search(); }
