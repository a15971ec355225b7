// The box to type into: the model is read from the page's own event log by reader.js.
"use strict";
(() => {
  const MOST_SHOWN = 2000; // tokens; more are counted, not drawn
  const part = id => document.getElementById(id);
  const typed = part("typed"), told = part("told"), pieces = part("pieces"), steps = part("steps");
  const hidden = new RegExp(`[${JSON.parse(part("hidden").textContent)} \\\\]`, "gu");
  const names = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\", " ": "␠"};
  let model = null, nodes = [], second = null; // second: another model, which only splits

  // Bytes as one line that can be shown anywhere, as streambpe/text/shown.py has them.
  const spelled = text => text.replace(hidden, c => names[c] || `<U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}>`);
  function shown(bytes) {
    let found = "", at = 0;
    const broken = [];
    const close = () => {
      if (broken.length) found += `<${broken.map(b => b.toString(16).toUpperCase().padStart(2, "0")).join(" ")}>`;
      broken.length = 0;
    };
    while (at < bytes.length) {
      const size = bytes[at] < 0x80 ? 1 : bytes[at] < 0xe0 ? 2 : bytes[at] < 0xf0 ? 3 : 4;
      try {
        const text = new TextDecoder("utf-8", {fatal: true, ignoreBOM: true}).decode(bytes.slice(at, at + size));
        close();
        found += spelled(text);
        at += size;
      } catch {
        broken.push(bytes[at++]);
      }
    }
    close();
    return found;
  }
  const contentShown = (id, of = model) => (id < 0 ? "<unknown>" : shown(of.contentBytes(id)));
  const nodeShown = (node, of = model) => (node.special !== undefined ? of.specialTexts.get(node.special) : contentShown(node.id, of));
  const idShown = (node, of = model) => (node.special ?? of.modelId.get(node.id) ?? "–");

  function element(tag, text, name) {
    const made = document.createElement(tag);
    made.textContent = text;
    if (name) made.className = name;
    return made;
  }

  function choose(at, focus) {
    const old = pieces.querySelector("[aria-selected=true]"), now = pieces.children[at];
    if (old) {
      old.setAttribute("aria-selected", "false");
      old.tabIndex = -1;
    }
    if (!now) return steps.replaceChildren();
    now.setAttribute("aria-selected", "true");
    now.tabIndex = 0;
    if (focus) now.focus();
    explain(nodes[at]);
  }

  // The events that led to a token.
  function explain(node) {
    const history = node.special === undefined ? model.history(node) : [];
    const n = history.length, events = n > 1 ? `${n.toLocaleString("en")} events` : n ? "1 event" : "no event";
    const title = spaced(element("p", ""), `${nodeShown(node)} is id ${idShown(node)}, made by ${events}.`);
    const rows = history.map(index => {
      const event = model.events[index], row = document.createElement("tr");
      const [from, to] = event.op === "delete"
        ? [contentShown(event.id), event.into.map(contentShown).join(" + ")]
        : [`${contentShown(event.left)} + ${contentShown(event.right)}`, contentShown(event.id)];
      row.append(element("td", (index + 1).toLocaleString("en"), "n"), element("td", event.op));
      for (const text of [from, to]) {
        const cell = document.createElement("td");
        cell.append(spaced(element("code", ""), text));
        row.append(cell);
      }
      row.append(element("td", event.n.toLocaleString("en"), "n"));
      return row;
    });
    if (!rows.length) return steps.replaceChildren(title);
    const table = document.createElement("table"), head = document.createElement("tr"), body = document.createElement("tbody");
    for (const name of ["event", "", "from", "to", "count"]) {
      const cell = element("th", name, name === "event" || name === "count" ? "n" : "");
      cell.scope = "col";
      head.append(cell);
    }
    table.createTHead().append(head);
    body.append(...rows);
    table.append(body);
    const box = element("div", "", "scroll");
    box.tabIndex = 0;
    box.append(table);
    steps.replaceChildren(title, box);
  }

  // [the tokens that a model makes of a text, a sentence about them]
  function split(text, of) {
    try {
      const found = of.nodes(text, true), ids = found.map(node => of.idOfNode(node));
      const bytes = new TextEncoder().encode(text).length;
      const more = ids.length > MOST_SHOWN ? ` The first ${MOST_SHOWN.toLocaleString("en")} are shown.` : "";
      return [found, `${ids.length.toLocaleString("en")} ${ids.length === 1 ? "token" : "tokens"} for ` +
        `${bytes.toLocaleString("en")} ${bytes === 1 ? "byte" : "bytes"}` +
        (ids.length ? `, ${(bytes / ids.length).toFixed(2)} bytes per token.` : ".") + more];
    } catch (why) {
      return [[], why instanceof RangeError ? "This text is too long for the browser." : `Not encoded: ${why.message}.`];
    }
  }
  const coloured = (found, of) => found.slice(0, MOST_SHOWN).map((node, i) => {
    const piece = element("span", nodeShown(node, of).replaceAll("␠", " "), `piece c${i % 5}`);
    piece.title = `id ${idShown(node, of)}`;
    return piece;
  });

  function tokenise() {
    if (!model) return;
    [nodes, told.textContent] = split(typed.value, model);
    const made = coloured(nodes, model);
    made.forEach((piece, i) => {
      piece.setAttribute("role", "option");
      piece.setAttribute("aria-selected", "false");
      piece.tabIndex = i ? -1 : 0;
    });
    pieces.replaceChildren(...made);
    steps.replaceChildren();
    if (!second) return;
    const [others, says] = split(typed.value, second);
    part("told-second").textContent = `${part("told-second").dataset.model}: ${says}`;
    part("pieces-second").replaceChildren(...coloured(others, second));
  }

  pieces.addEventListener("click", event => {
    const at = [...pieces.children].indexOf(event.target);
    if (at >= 0) choose(at, true);
  });
  pieces.addEventListener("focusin", event => {
    const at = [...pieces.children].indexOf(event.target);
    if (at >= 0 && event.target.getAttribute("aria-selected") !== "true") choose(at, false);
  });
  pieces.addEventListener("keydown", event => {
    const at = [...pieces.children].indexOf(document.activeElement), last = pieces.children.length - 1;
    const to = {ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: last}[event.key];
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    choose(Math.min(Math.max(to, 0), last), true);
  });
  let waiting = 0;
  typed.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(tokenise, 60);
  });

  async function read(end) {
    const log = StreambpeReader.readLog(await unpacked(`log${end}`));
    if ((await StreambpeReader.isIntact(log)) === false) throw new Error("its events are not those of its digest");
    return new StreambpeReader.Model(log, JSON.parse(await unpacked(`splitting${end}`)));
  }

  (async () => {
    try {
      model = await read("");
      if (part("second")) second = await read("-second");
      typed.disabled = false;
      tokenise();
    } catch (why) {
      told.textContent = `The event log in this page cannot be read: ${why.message}.`;
    }
    part("playground").dataset.ready = "yes";
  })();
})();
