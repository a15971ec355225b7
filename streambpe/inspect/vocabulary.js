// The vocabulary: searched, sorted and shown a page at a time.
(async () => {
  const PAGE = 100;
  const section = document.getElementById("vocabulary");
  if (!section) return;
  const {vocabulary} = JSON.parse(await unpacked("facts"));
  const names = JSON.parse(document.getElementById("kinds-named").textContent);
  const part = id => document.getElementById(id);
  const body = section.querySelector("tbody"), heads = [...section.querySelectorAll("th")];
  const first = vocabulary.first_id, columns = {
    id: i => first + i,
    token: i => vocabulary.shown[i],
    kind: i => names[vocabulary.kind[i]],
    length: i => vocabulary.length[i],
    n: i => vocabulary.n[i],
    uses: i => vocabulary.uses[i],
  };
  const keys = heads.map(head => head.dataset.key);
  const folded = vocabulary.shown.map(text => text.toLowerCase());
  let key = "id", down = false, rows = [], drawn = 0;

  function cell(value) {
    const made = document.createElement("td");
    if (typeof value === "string") {
      const code = document.createElement("code");
      code.textContent = value.length > 400 ? value.slice(0, 400) + "…" : value;
      made.append(code);
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
    const say = n => n.toLocaleString("en");
    part("found").textContent = rows.length > drawn ? `${say(rows.length)} ids, ${say(drawn)} of them listed.` : `${say(rows.length)} ids.`;
  }

  function look() {
    // A space is typed as a space, and shown as ␠. A number finds that id too.
    const sought = part("sought").value.toLowerCase().replaceAll(" ", "␠"), kind = part("kind").value;
    rows = [];
    for (let i = 0; i < folded.length; i++) {
      if (kind && vocabulary.kind[i] !== kind) continue;
      if (!sought || folded[i].includes(sought) || String(first + i) === sought) rows.push(i);
    }
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
      down = name === key ? !down : ["length", "n", "uses"].includes(name);
      key = name;
      for (const one of heads) one.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      look();
    });
  part("sought").disabled = part("kind").disabled = false;
  look();
  section.dataset.ready = "yes";
})();
