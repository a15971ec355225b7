// The vocabulary: searched, sorted and shown a page at a time.
(async () => {
  const PAGE = 100;
  const section = document.getElementById("vocabulary");
  const {vocabulary} = JSON.parse(await unpacked("facts"));
  const names = JSON.parse(document.getElementById("kinds-named").textContent);
  const part = id => document.getElementById(id), say = n => n.toLocaleString("en");
  const body = section.querySelector("tbody"), first = vocabulary.first_id, ids = vocabulary.shown.map((_, i) => i);
  const columns = {
    id: i => first + i,
    token: i => vocabulary.shown[i],
    kind: i => names[vocabulary.kind[i]],
    bytes: i => vocabulary.length[i],
    event: i => vocabulary.event[i],
    count: i => vocabulary.n[i],
    uses: i => vocabulary.uses[i],
  };
  const keys = Object.keys(columns);
  const folded = vocabulary.shown.map(text => text.toLowerCase());
  let key = "id", down = false, rows = [], drawn = 0;

  for (const name of keys) {
    const head = document.createElement("th"), button = document.createElement("button");
    head.scope = "col";
    head.dataset.key = name;
    button.type = "button";
    button.textContent = name;
    head.append(button);
    section.querySelector("thead tr").append(head);
  }
  const heads = [...section.querySelectorAll("th")];
  heads[0].setAttribute("aria-sort", "ascending");
  const kinds = {learned: i => vocabulary.event[i] !== null, all: () => true};
  for (const letter in names) kinds[names[letter]] = i => vocabulary.kind[i] === letter;
  for (const kind in kinds) {
    const many = ids.filter(kinds[kind]).length;
    if (many) part("kind").append(new Option(`${kind} (${say(many)})`, kind));
  }

  function cell(value) {
    const made = document.createElement("td");
    if (typeof value === "string") {
      made.append(spaced(document.createElement("code"), value.length > 400 ? value.slice(0, 400) + "…" : value));
    } else {
      made.className = "n";
      made.textContent = value === null ? "–" : value.toLocaleString("en");
    }
    return made;
  }

  function draw() {
    const some = rows.slice(drawn, drawn + PAGE).map(i => {
      const row = document.createElement("tr");
      row.append(...keys.map(name => cell(columns[name](i))));
      return row;
    });
    body.append(...some);
    drawn += some.length;
    part("more").hidden = drawn >= rows.length;
    part("found").textContent = rows.length > drawn ? `${say(rows.length)} ids, ${say(drawn)} of them listed.` : `${say(rows.length)} ids.`;
  }

  function look() {
    // A space is typed as a space, and stands in the page's facts as ␠. A number finds that id too.
    const sought = part("sought").value.toLowerCase().replaceAll(" ", "␠"), wanted = kinds[part("kind").value];
    rows = ids.filter(i => wanted(i) && (!sought || folded[i].includes(sought) || String(first + i) === sought));
    const of = columns[key], sign = down ? -1 : 1;
    if (key !== "id" || down)
      rows.sort((a, b) => {
        const x = of(a), y = of(b);
        if (x === y) return a - b;
        if (x === null || y === null) return x === null ? 1 : -1; // what has no number comes last
        return x < y ? -sign : sign;
      });
    body.replaceChildren();
    drawn = 0;
    draw();
  }

  let waiting = 0;
  part("sought").addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(look, 80);
  });
  part("kind").addEventListener("change", look);
  part("more").addEventListener("click", draw);
  for (const head of heads)
    head.querySelector("button").addEventListener("click", () => {
      const name = head.dataset.key;
      down = name === key ? !down : ["bytes", "count", "uses"].includes(name);
      key = name;
      for (const one of heads) one.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      look();
    });
  part("sought").disabled = part("kind").disabled = false;
  look();
  section.dataset.ready = "yes";
})();
