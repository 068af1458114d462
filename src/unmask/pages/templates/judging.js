"use strict";
// Answers are kept under the questionnaire's key in local storage after every change, and written
// to a file when asked. All text from data goes through textContent.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const questions = data.questions.map(([id, passage, option, hint]) => ({ id, passage, option, hint }));
  const byId = new Map(questions.map((question, index) => [question.id, index]));
  const asksForAll = questions[0].option === null;
  const SHOWN = 60; // options that are listed at once; searching reaches the others
  const slot = `unmask:${data.key}`;
  const element = (id) => document.getElementById(id);
  const number = new Intl.NumberFormat("en");

  // One answer: { answer?, chosen?, others?, complete? }. History: [question, the answer before or null].
  let state = { annotator: "", position: 0, answers: {}, history: [], shortcuts: true, saved: 0 };
  let shownPassage = -1;
  let kept = true;

  // Keeping

  const isPosition = (value, length) => Number.isInteger(value) && value >= 0 && value < length;

  const tidy = (text) => text.trim().replace(/\s+/g, " ").slice(0, 200);

  const cleaned = (value) => {
    if (typeof value !== "object" || value === null) return null;
    const answer = ["yes", "no", "unsure", "skip"].includes(value.answer) ? value.answer : undefined;
    if (!asksForAll) return answer ? { answer } : null;
    const chosen = Array.isArray(value.chosen)
      ? [...new Set(value.chosen)].filter((option) => isPosition(option, data.options.length)) : [];
    if (answer === "yes" || answer === "no") return null;
    const others = Array.isArray(value.others)
      ? [...new Set(value.others.filter((name) => typeof name === "string").map(tidy))].filter(Boolean) : [];
    return { answer, chosen, others, complete: value.complete === true };
  };

  const load = () => {
    let stored;
    try {
      stored = JSON.parse(localStorage.getItem(slot) || "null");
    } catch {
      stored = null;
    }
    if (typeof stored !== "object" || stored === null) return;
    const answers = {};
    for (const [id, value] of Object.entries(stored.answers || {})) {
      const answer = byId.has(id) ? cleaned(value) : null;
      if (answer) answers[id] = answer;
    }
    const history = (Array.isArray(stored.history) ? stored.history : [])
      .filter((step) => Array.isArray(step) && isPosition(step[0], questions.length))
      .map(([index, before]) => [index, cleaned(before)]);
    state = {
      answers,
      history,
      annotator: String(stored.annotator || "").slice(0, 100),
      position: isPosition(stored.position, questions.length + 1) ? stored.position : 0,
      shortcuts: stored.shortcuts !== false,
      saved: isPosition(stored.saved, history.length + 1) ? stored.saved : 0,
    };
  };

  const store = (name, text) => {
    try {
      localStorage.setItem(name, text);
      kept = true;
    } catch {
      kept = false;
      complain("This browser does not keep answers: save them to a file before you close the page.");
    }
  };

  const keep = () => store(slot, JSON.stringify(state));

  // Opening the page never writes over the answers: a browser may still be writing what another
  // tab, or this one before it was loaded again, has kept.
  const tryStorage = () => store(`${slot}:try`, "");

  const complain = (words) => {
    element("trouble").textContent = words;
    element("trouble").hidden = words === "";
  };

  // Answers

  const answerTo = (index) => state.answers[questions[index].id] || null;

  // All options that apply: those of the list, and others in the person's words.
  const applying = () => {
    const { chosen = [], others = [] } = answerTo(state.position) || {};
    return { chosen: [...chosen], others: [...others] };
  };

  const change = (index, value) => {
    state.history.push([index, answerTo(index)]);
    state.answers[questions[index].id] = value;
  };

  const verdict = (value) => {
    if (!value) return "";
    if (value.answer) return value.answer;
    return value.complete ? "complete" : "";
  };

  const next = (from) => {
    const total = questions.length;
    for (let step = 1; step <= total; step += 1) {
      const index = (from + step) % total;
      if (verdict(answerTo(index)) === "") return index;
    }
    for (let index = from + 1; index < total; index += 1) {
      if (verdict(answerTo(index)) === "skip") return index;
    }
    return total;
  };

  const give = (word) => {
    const index = state.position;
    if (index >= questions.length) return;
    if (asksForAll && word === "complete") addOther(); // what is typed and not added yet
    const applies = asksForAll ? applying() : {};
    change(index, word === "complete"
      ? { ...applies, complete: true } : asksForAll ? { ...applies, answer: word, complete: false } : { answer: word });
    state.position = next(index);
    keep();
    clearQuery();
    show(`${word[0].toUpperCase()}${word.slice(1)}. `);
  };

  const undo = () => {
    const step = state.history.pop();
    if (!step) return;
    const [index, before] = step;
    if (before) state.answers[questions[index].id] = before;
    else delete state.answers[questions[index].id];
    state.position = index;
    state.saved = Math.min(state.saved, state.history.length);
    keep();
    show("Undone. ");
  };

  const goTo = (position) => {
    if (position < 0 || position > questions.length) return;
    state.position = position;
    keep();
    clearQuery();
    show("");
  };

  const toggle = (kind, each, name) => {
    const applies = applying();
    const removed = applies[kind].includes(each);
    applies[kind] = removed ? applies[kind].filter((one) => one !== each) : [...applies[kind], each];
    change(state.position, { ...applies, complete: false });
    keep();
    showChoices();
    showProgress();
    say(`${name} ${removed ? "removed" : "chosen"}.`);
  };

  const toggleOption = (option) => toggle("chosen", option, data.options[option]);

  const addOther = () => {
    const name = tidy(element("other").value);
    element("other").value = "";
    if (name === "") return;
    const { chosen, others } = applying();
    const listed = data.options.findIndex((option) => plain(tidy(option)) === plain(name));
    if (listed >= 0 && !chosen.includes(listed)) toggleOption(listed);
    else if (listed < 0 && !others.some((each) => plain(each) === plain(name))) toggle("others", name, name);
  };

  // Showing

  const say = (words) => { element("said").textContent = words; };

  const showProgress = () => {
    const counts = { yes: 0, no: 0, unsure: 0, skip: 0, complete: 0, "": 0 };
    questions.forEach((_, index) => { counts[verdict(answerTo(index))] += 1; });
    const judged = counts.yes + counts.no + counts.unsure + counts.complete;
    const more = [["unsure", counts.unsure], ["skipped", counts.skip]]
      .filter(([, count]) => count > 0).map(([word, count]) => `, ${number.format(count)} ${word}`);
    const words = `${number.format(judged)} of ${number.format(questions.length)} judged${more.join("")}`;
    element("bar").value = judged;
    element("count").textContent = words;
    const unsaved = state.history.length - state.saved;
    element("unsaved").textContent = unsaved > 0
      ? `${number.format(unsaved)} ${unsaved === 1 ? "change is" : "changes are"} not in a file yet.`
      : state.history.length > 0 ? "All answers are in the file." : "";
    element("undo").disabled = state.history.length === 0;
    element("previous").disabled = state.position === 0;
    element("next").disabled = state.position >= questions.length;
    return { words, skipped: counts.skip };
  };

  const show = (before) => {
    const finished = state.position >= questions.length;
    const { words, skipped } = showProgress();
    element("asking").hidden = finished;
    element("finished").hidden = !finished;
    if (finished) {
      shownPassage = -1;
      element("finished-words").textContent = `${words}. Save the answers to a file and hand it on.`;
      element("again").hidden = skipped === 0;
      element("finished-title").focus();
      say(`${before}Finished. ${words}.`);
      return;
    }
    const { passage, option, hint } = questions[state.position];
    const [name, text] = data.passages[passage];
    const place = `${number.format(state.position + 1)} of ${number.format(questions.length)}`;
    element("place").textContent = place;
    element("name").textContent = name;
    if (passage !== shownPassage) {
      element("text").textContent = text;
      element("text").scrollTop = 0;
      shownPassage = passage;
    }
    element("hint").textContent = hint;
    element("hint").hidden = hint === "";
    const current = verdict(answerTo(state.position));
    for (const button of document.querySelectorAll("[data-answer]")) {
      button.setAttribute("aria-pressed", String(button.dataset.answer === current));
    }
    if (asksForAll) showChoices();
    else element("option").textContent = data.options[option];
    const asked = asksForAll ? "" : ` label ${data.options[option]}.`;
    say(`${before}Question ${place}, row ${name}.${asked}${current ? ` Answered ${current}.` : ""}`);
  };

  // All options of a passage

  const plain = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
  const searchable = asksForAll ? data.options.map(plain) : [];

  const matching = (query) => {
    const words = plain(query).split(/\s+/).filter(Boolean);
    const all = searchable.map((_, option) => option);
    if (words.length === 0) return all;
    const hits = all.filter((option) => words.every((word) => searchable[option].includes(word)));
    const whole = words.join(" ");
    const rank = (option) => searchable[option] === whole ? 0 : searchable[option].startsWith(whole) ? 1 : 2;
    return hits.sort((a, b) => rank(a) - rank(b) || a - b);
  };

  const checkbox = (option, chosen) => {
    const item = document.createElement("li");
    const label = document.createElement("label");
    const box = document.createElement("input");
    const name = document.createElement("bdi");
    box.type = "checkbox";
    box.value = String(option);
    box.checked = chosen.includes(option);
    box.addEventListener("change", () => toggleOption(option));
    name.textContent = data.options[option];
    label.append(box, name);
    item.append(label);
    return item;
  };

  const remover = (words, remove) => {
    const item = document.createElement("li");
    const button = document.createElement("button");
    const name = document.createElement("bdi");
    button.type = "button";
    name.textContent = words;
    button.append(name, " ×");
    button.setAttribute("aria-label", `Remove ${words}`);
    button.addEventListener("click", () => { remove(); element("query").focus(); });
    item.append(button);
    return item;
  };

  const showChoices = () => {
    const { chosen, others } = applying();
    const count = chosen.length + others.length;
    const hits = matching(element("query").value);
    const focused = document.activeElement && document.activeElement.value;
    const inList = element("choices").contains(document.activeElement);
    element("choices").replaceChildren(...hits.slice(0, SHOWN).map((option) => checkbox(option, chosen)));
    if (inList) {
      const again = [...element("choices").querySelectorAll("input")].find((box) => box.value === focused);
      if (again) again.focus();
    }
    const total = number.format(data.options.length);
    const shown = hits.length > SHOWN ? `, the first ${SHOWN} are listed; type to narrow` : "";
    const matched = element("query").value.trim() === "" ? `${total} labels`
      : `${number.format(hits.length)} of ${total} labels match`;
    element("matches").textContent = `${matched}${shown}`;
    element("chosen").replaceChildren(
      ...chosen.map((option) => remover(data.options[option], () => toggleOption(option))),
      ...others.map((name) => remover(name, () => toggle("others", name, name))),
    );
    element("chosen-title").textContent = `Chosen: ${count || "none"}`;
    element("complete-words").textContent = count > 0 ? "These are all" : "None applies";
    const current = verdict(answerTo(state.position));
    for (const button of document.querySelectorAll("[data-answer]")) {
      button.setAttribute("aria-pressed", String(button.dataset.answer === current));
    }
  };

  const clearQuery = () => {
    if (asksForAll) for (const name of ["query", "other"]) element(name).value = "";
  };

  if (asksForAll) {
    const query = element("query");
    query.addEventListener("input", showChoices);
    query.addEventListener("keydown", (event) => {
      const { chosen } = applying();
      if (event.key === "Enter" && !event.ctrlKey && !event.metaKey && query.value.trim() !== "") {
        const [first] = matching(query.value);
        if (first === undefined) return;
        query.value = "";
        toggleOption(first);
      } else if (event.key === "Backspace" && query.value === "" && chosen.length > 0) {
        toggleOption(chosen[chosen.length - 1]);
      } else if (event.key === "ArrowDown") {
        const box = element("choices").querySelector("input");
        if (box) { event.preventDefault(); box.focus(); }
      }
    });
    element("add").addEventListener("click", addOther);
    element("other").addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      addOther();
    });
    element("choices").addEventListener("keydown", (event) => {
      const boxes = [...element("choices").querySelectorAll("input")];
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      const index = boxes.indexOf(event.target);
      if (step === undefined || index < 0) return;
      event.preventDefault();
      (boxes[index + step] || (step < 0 ? query : boxes[index])).focus();
    });
  }

  // Files

  const exported = () => questions.flatMap((question, index) => {
    const value = answerTo(index);
    if (!value) return [];
    const entry = { question: question.id, row: data.passages[question.passage][0] };
    if (!asksForAll) return [{ ...entry, label: data.options[question.option], answer: value.answer }];
    const names = value.chosen.map((option) => data.options[option]);
    const word = value.answer ? { answer: value.answer } : {};
    const others = value.others && value.others.length > 0 ? { others: value.others } : {};
    return [{ ...entry, labels: value.chosen, names, ...others, complete: value.complete, ...word }];
  });

  const save = () => {
    const record = { kind: data.kind, key: data.key, annotator: state.annotator, answers: exported() };
    const blob = new Blob([`${JSON.stringify(record, null, 1)}\n`], { type: "application/json" });
    const link = document.createElement("a");
    const who = state.annotator.normalize("NFKD").replace(/[^A-Za-z0-9]+/g, "-").replace(/^-|-$/g, "");
    link.href = URL.createObjectURL(blob);
    link.download = who ? `answers-${who}.json` : "answers.json";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    state.saved = state.history.length;
    keep();
    showProgress();
    say("Answers saved to a file.");
  };

  const open = (text) => {
    let record;
    try {
      record = JSON.parse(text);
    } catch {
      record = null;
    }
    if (!record || record.kind !== data.kind || !Array.isArray(record.answers)) {
      complain("That file holds no answers saved by such a page.");
      return;
    }
    if (record.key !== data.key) {
      complain("That file belongs to other questions.");
      return;
    }
    let added = 0;
    for (const entry of record.answers) {
      const index = entry && byId.get(entry.question);
      if (index === undefined || verdict(answerTo(index)) !== "") continue;
      const answer = cleaned(asksForAll ? { ...entry, chosen: entry.labels } : entry);
      if (!answer) continue;
      change(index, answer);
      added += 1;
    }
    if (!state.annotator) state.annotator = String(record.annotator || "").slice(0, 100);
    element("annotator").value = state.annotator;
    state.position = next(-1);
    complain("");
    keep();
    show(`${added} answers read. `);
  };

  // Controls

  for (const button of document.querySelectorAll("[data-answer]")) {
    button.addEventListener("click", () => give(button.dataset.answer));
  }
  element("undo").addEventListener("click", undo);
  element("previous").addEventListener("click", () => goTo(state.position - 1));
  element("next").addEventListener("click", () => goTo(state.position + 1));
  element("again").addEventListener("click", () => {
    goTo(questions.findIndex((_, index) => verdict(answerTo(index)) === "skip"));
  });
  element("save").addEventListener("click", save);
  element("annotator").addEventListener("input", (event) => {
    state.annotator = event.target.value;
    keep();
  });
  element("shortcuts").addEventListener("change", (event) => {
    state.shortcuts = event.target.checked;
    keep();
  });
  element("open").addEventListener("change", async (event) => {
    const [file] = event.target.files;
    if (file) open(await file.text());
    event.target.value = "";
  });

  const KEYS = { u: () => give("unsure"), s: () => give("skip"), z: undo,
    arrowleft: () => goTo(state.position - 1), arrowright: () => goTo(state.position + 1) };
  if (asksForAll) KEYS["/"] = () => element("query").focus();
  else Object.assign(KEYS, { y: () => give("yes"), n: () => give("no") });

  document.addEventListener("keydown", (event) => {
    if (asksForAll && event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      give("complete");
      return;
    }
    const typing = event.target.matches("input:not([type=checkbox]), textarea, select");
    if (typing || event.ctrlKey || event.metaKey || event.altKey || event.repeat || !state.shortcuts) return;
    const action = KEYS[event.key.toLowerCase()];
    if (!action) return;
    event.preventDefault();
    action();
  });

  window.addEventListener("storage", (event) => {
    if (event.key !== slot) return; // the same page in another tab
    load();
    show("");
  });
  window.addEventListener("beforeunload", (event) => {
    if (!kept && state.history.length > state.saved) event.preventDefault();
  });

  load();
  element("annotator").value = state.annotator;
  element("shortcuts").checked = state.shortcuts;
  tryStorage();
  show("");
})();
