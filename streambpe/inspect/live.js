// The page of a run that goes on: what changed is fetched again and again, and put in its place.
(() => {
  const known = new Map(), note = document.getElementById("note"), box = document.getElementById("cards");

  function put(id, html) {
    if (known.get(id) === html) return;
    known.set(id, html);
    const made = document.createElement("template");
    made.innerHTML = html;
    const now = made.content.firstElementChild, old = document.getElementById(id);
    if (old?.querySelector("details")?.open && now.querySelector("details")) now.querySelector("details").open = true;
    if (old) old.replaceWith(now);
    else box.append(now);
    readable(now);
  }

  async function look() {
    let wait = 1000;
    try {
      const answer = await fetch("data", {cache: "no-store"});
      if (!answer.ok) throw new Error(answer.status);
      const data = await answer.json();
      document.title = data.title;
      document.getElementById("title").textContent = data.title;
      for (const [id, name] of [["tiles", "tiles"], ["lines", "lines"]])
        if (known.get(id) !== data[name]) {
          known.set(id, data[name]);
          document.getElementById(id).innerHTML = data[name];
        }
      const listed = new Set(data.cards.map(([id]) => id));
      for (const card of [...box.children]) if (!listed.has(card.id)) {
        known.delete(card.id);
        card.remove();
      }
      for (const [id, html] of data.cards) put(id, html);
      if (note.textContent !== data.note) note.textContent = data.note;
      document.body.dataset.ready = data.state;
    } catch {
      note.textContent = "Nothing more comes: the command that serves this page has ended, or cannot be reached.";
      wait = 5000;
    }
    setTimeout(look, wait);
  }
  look();
})();
