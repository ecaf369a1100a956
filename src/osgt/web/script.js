// Keeps the page in step with its fields: posts the form, takes the answer's parts. Without it, every button still works.
"use strict";

const WAIT = 10;
let busy = false;
let waiting = null;
const KEEP = 100;
let timer;
let keeping = null;

function main() {
  return document.getElementById("main");
}

// The page that comes back; if none does, why.
async function answer(form, submitter) {
  const fields = new URLSearchParams(new FormData(form, submitter));
  try {
    const response = await fetch(form.action, { method: "POST", body: fields, credentials: "same-origin" });
    const text = await response.text();
    const page = new DOMParser().parseFromString(text, "text/html");
    if (page.getElementById("main") !== null) return { page, lost: "" };
    return { page: null, lost: response.status < 500 ? text : "Something went wrong: the terminal has more." };
  } catch {
    return { page: null, lost: "No answer from the server: is osgt web still running?" };
  }
}

// One request at a time: what is changed meanwhile is sent when the answer is there, all of it together.
function update(form, whole, submitter) {
  waiting = { form, whole: whole || (waiting !== null && waiting.whole), submitter };
  if (!busy) run();
}

async function run() {
  busy = true;
  while (waiting !== null) {
    const { form, whole, submitter } = waiting;
    waiting = null;
    const current = document.getElementById("planner") || form;
    const { page, lost } = await answer(current, submitter && submitter.isConnected ? submitter : undefined);
    document.getElementById("lost").textContent = lost;
    if (page === null) continue;
    // Fields that have changed since are newer than the answer: they stay, and the next answer has them.
    if (whole && waiting === null) replaced(page);
    else {
      refreshed(page);
      if (whole && waiting !== null) waiting.whole = true;
    }
    document.body.dataset.updates = String(Number(document.body.dataset.updates || 0) + 1);
  }
  busy = false;
}

// All of the page: where the fields themselves have changed. Folds and the focus stay, unless the server opens a step.
function replaced(page) {
  const focus = document.activeElement && document.activeElement.id;
  const folds = new Map([...document.querySelectorAll("details")].map((each) => [each.id, each.open]));
  main().replaceWith(page.getElementById("main"));
  if (document.getElementById("planner").dataset.opened) return;
  for (const each of document.querySelectorAll("details")) {
    if (folds.has(each.id)) each.open = folds.get(each.id);
  }
  const field = focus && document.getElementById(focus);
  if (field) field.focus({ preventScroll: true });
}

// What follows from the fields alone: numbers, problems, the query file.
function refreshed(page) {
  for (const part of document.querySelectorAll("[data-live]")) {
    const fresh = page.getElementById(part.id);
    if (fresh === null || fresh.innerHTML === part.innerHTML) continue;
    part.innerHTML = fresh.innerHTML;
  }
  for (const field of document.querySelectorAll("[aria-describedby]")) {
    const problem = document.getElementById(field.getAttribute("aria-describedby").split(" ").pop());
    if (problem && problem.textContent.trim()) field.setAttribute("aria-invalid", "true");
    else field.removeAttribute("aria-invalid");
  }
}

// The address of this page, so that loading it again finds what was entered.
function addressed() {
  const form = document.getElementById("planner");
  if (form) history.replaceState(null, "", `${form.action}?page=${form.elements.page.value}`);
}

// The server keeps what is typed, also before the field is left.
function keep() {
  clearTimeout(keeping);
  keeping = null;
  const form = document.getElementById("planner");
  if (!form) return;
  const body = new URLSearchParams(new FormData(form));
  fetch(`${form.action}keep`, { method: "POST", body, credentials: "same-origin", keepalive: true }).catch(() => null);
}

function slide(slider) {
  const value = slider.dataset.steps.split(" ")[Number(slider.value)];
  document.getElementById(slider.dataset.for).value = value;
  slider.setAttribute("aria-valuetext", value);
}

function follow(field) {
  const slider = document.querySelector(`input[type=range][data-for="${field.id}"]`);
  const value = Number(field.value);
  if (!slider || !(value > 0)) return;
  const distance = (step) => Math.abs(Math.log(Number(step) / value));
  const steps = slider.dataset.steps.split(" ");
  slider.value = String(steps.indexOf(steps.reduce((a, b) => (distance(b) < distance(a) ? b : a))));
  slider.setAttribute("aria-valuetext", field.value);
}

document.addEventListener("input", (event) => {
  const field = event.target;
  if (!field.form || field.form.id !== "planner" || field.type === "file") return;
  if (field.type === "range") slide(field);
  else follow(field);
  if (keeping === null && (busy || field.matches("[data-refresh]"))) keeping = setTimeout(keep, KEEP);
  if (field.matches("[data-refresh], [data-quiet]")) return;
  clearTimeout(timer);
  timer = setTimeout(() => update(field.form, false), WAIT);
});

document.addEventListener("change", async (event) => {
  const field = event.target;
  if (!field.form || field.form.id !== "planner") return;
  if (field.type === "file") {
    const text = field.files.length && field.files[0].size < 500000 ? await field.files[0].text() : "";
    document.getElementById(field.dataset.into).value = text;
  } else if (field.matches("[data-refresh]")) {
    clearTimeout(timer);
    update(field.form, true);
  }
});

document.addEventListener("submit", (event) => {
  const by = event.submitter;
  if (event.target.id !== "planner" || (by && by.hasAttribute("formaction"))) return;
  event.preventDefault();
  clearTimeout(timer);
  update(event.target, true, by);
});

addEventListener("pagehide", () => {
  if (keeping !== null) keep();
});

// Whether something else was entered than the page came with.
function isEntered(field) {
  if (field.matches("[type=checkbox], [type=radio]")) return field.checked !== field.defaultChecked;
  if (!field.matches("select")) return field.type !== "hidden" && field.value !== field.defaultValue;
  const chosen = [...field.options].findIndex((each) => each.defaultSelected);
  return field.selectedIndex !== Math.max(chosen, 0);
}

// What was entered before this script was there. Who is still typing leaves the field later.
for (const field of document.querySelectorAll("#planner :is(input, select, textarea)")) {
  if (!isEntered(field)) continue;
  field.dispatchEvent(new Event("input", { bubbles: true }));
  const typing = field === document.activeElement && field.matches("textarea, [type=text]");
  if (!typing) field.dispatchEvent(new Event("change", { bubbles: true }));
}

addressed();

async function poll() {
  const waiting = document.querySelector("[data-poll]");
  if (!waiting) return;
  const response = await fetch(waiting.dataset.poll, { credentials: "same-origin" }).catch(() => null);
  if (response && response.ok) {
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    document.title = page.title;
    main().replaceWith(page.getElementById("main"));
  }
  setTimeout(poll, 500);
}

setTimeout(poll, 300);
