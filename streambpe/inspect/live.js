// The page of a run: what changed is fetched and put in its place, again and again until nothing more comes.
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
    let wait = 1000 * document.body.dataset.every;
    try {
      const answer = await fetch("data", {cache: "no-store"});
      if (!answer.ok) throw new Error(answer.status);
      const data = await answer.json();
      document.title = data.title;
      document.getElementById("title").textContent = data.title;
      if (known.get("tiles") !== data.tiles) {
        known.set("tiles", data.tiles);
        document.getElementById("tiles").innerHTML = data.tiles;
      }
      const listed = new Set(data.cards.map(([id]) => id));
      for (const card of [...box.children]) if (!listed.has(card.id)) {
        known.delete(card.id);
        card.remove();
      }
      for (const [id, html] of data.cards) put(id, html);
      if (note.textContent !== data.note) note.textContent = data.note;
      document.body.dataset.ready = data.state;
      if (!data.more) return;
    } catch {
      note.textContent = "The command that serves this page has ended, or cannot be reached: the figures are old.";
      wait = 5000;
    }
    setTimeout(look, wait);
  }
  look();
})();
