"use strict";
const tip = document.getElementById("tip");
const say = v => Number.isInteger(v) ? v.toLocaleString("en") : Number(v.toPrecision(4)).toLocaleString("en", {maximumFractionDigits: 4});
// The numbers of each line of a picture: under the pointer, and all of them in the table below it.
function readable(part) {
  for (const chart of part.querySelectorAll("svg.chart")) {
    const lines = [...chart.querySelectorAll(".reading")].map(g => ({name: g.dataset.name, points: JSON.parse(g.dataset.points)}));
    const numbers = chart.parentElement.querySelector("tbody");
    for (const line of lines) for (const point of line.points) {
      const row = numbers.insertRow();
      if (lines.length > 1) row.insertCell().textContent = line.name;
      for (const value of point.slice(2)) Object.assign(row.insertCell(), {className: "n", textContent: say(value)});
    }
    const cross = chart.querySelector(".cross");
    const hide = () => { tip.hidden = true; cross.style.visibility = "hidden"; };
    chart.addEventListener("pointermove", event => {
      const box = chart.getBoundingClientRect(), view = chart.viewBox.baseVal;
      const x = (event.clientX - box.left) * view.width / box.width;
      const near = lines.map(line => line.points.reduce((a, b) => Math.abs(b[0] - x) < Math.abs(a[0] - x) ? b : a));
      const at = near.reduce((a, b) => Math.abs(b[0] - x) < Math.abs(a[0] - x) ? b : a);
      const shown = near.map((p, i) => (lines.length > 1 ? lines[i].name + "  " : "") + say(p[2]) + ": " + say(p[3]));
      for (const [key, value] of [["x1", at[0]], ["x2", at[0]], ["y1", 28], ["y2", view.height - 42]]) cross.setAttribute(key, value);
      cross.style.visibility = "visible";
      tip.textContent = shown.join("\n");
      tip.hidden = false;
      const left = Math.min(event.pageX + 12, document.documentElement.clientWidth - tip.offsetWidth - 8);
      tip.style.left = Math.max(8, left) + "px";
      tip.style.top = (event.pageY - tip.offsetHeight - 12) + "px";
    });
    chart.addEventListener("pointerleave", hide);
  }
}
readable(document);
