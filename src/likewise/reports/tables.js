// Tables that sort and filter, and times in the reader's locale. The page says the same without this script; it only adds controls.
// Nothing is loaded or stored, and text from the data is only ever moved or compared.
(() => {
  "use strict";
  const FEW = 6; // with fewer lines there is no filter

  // What a table is made of: its bodies if it has several, else its rows.
  const unitsOf = table =>
    table.tBodies.length > 1 ? [...table.tBodies] : [...table.tBodies[0].rows];

  const cellOf = (unit, column, width) => {
    const rows = unit.rows ? [...unit.rows] : [unit];
    const row = rows.find(one => one.cells.length === width);
    return row ? row.cells[column] : null;
  };

  // A cell as something to compare: a number where it begins with one, else text in small letters.
  const valueOf = cell => {
    const text = cell ? (cell.dataset.value ?? cell.textContent).trim() : "";
    const plain = text.replace(/[,\u00a0]/g, "").replace(/^\u2212/, "-");
    const number = /^[-+]?\d+(\.\d+)?(e[-+]?\d+)?%?( |$)/i.test(plain) ? parseFloat(plain) : null;
    return { text: text.toLowerCase(), number, empty: text === "" || text === "–" };
  };

  // All cells, one to a line, so that no words go across two of them.
  const textOf = unit =>
    [...unit.querySelectorAll("th, td")].map(cell => cell.textContent.replace(/\s+/g, " "))
      .join("\n").toLowerCase();

  const compare = (a, b) => {
    if (a.number !== null && b.number !== null) return a.number - b.number;
    if ((a.number === null) !== (b.number === null)) return a.number === null ? 1 : -1;
    return a.text.localeCompare(b.text);
  };

  const make = (name, properties) => Object.assign(document.createElement(name), properties);

  const sortable = table => {
    const heads = [...table.tHead.rows[0].cells];
    const original = unitsOf(table);
    const parent = original[0].parentNode;
    const arrange = (column, direction) => {
      const keyed = original.map((unit, place) => ({
        unit, place, value: valueOf(cellOf(unit, column, heads.length)),
      }));
      if (direction !== "none") {
        const sign = direction === "ascending" ? 1 : -1;
        keyed.sort((a, b) =>
          a.value.empty - b.value.empty || sign * compare(a.value, b.value) || a.place - b.place);
      }
      parent.append(...keyed.map(one => one.unit));
      heads.forEach((head, i) => head.setAttribute("aria-sort", i === column ? direction : "none"));
    };
    heads.forEach((head, column) => {
      const button = make("button", { type: "button", className: "sort" });
      button.append(...head.childNodes);
      head.append(button);
      head.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => {
        const next = { none: "ascending", ascending: "descending", descending: "none" };
        arrange(column, next[head.getAttribute("aria-sort")]);
      });
    });
  };

  const filterable = table => {
    const units = unitsOf(table);
    if (units.length < FEW) return;
    const box = make("p", { className: "filter small" });
    const label = make("label", { textContent: "Show lines with " });
    const input = make("input", { type: "search", autocomplete: "off", spellcheck: false });
    const status = make("span", { className: "told" });
    const note = make("span", { className: "on-paper" });
    status.setAttribute("role", "status");
    label.append(input);
    box.append(label, status, note);
    table.parentNode.before(box);
    const apply = () => {
      const words = input.value.toLowerCase().replace(/\s+/g, " ").trim();
      let shown = 0;
      for (const unit of units) {
        const out = !textOf(unit).includes(words);
        shown += !out;
        unit.classList.toggle("out", out);
        const card = unit.dataset.card && document.getElementById(unit.dataset.card);
        if (card) card.classList.toggle("out", out);
      }
      status.textContent = words ? ` ${shown} of ${units.length} shown` : "";
      note.textContent = words ? "A filter is set on the screen; all lines are printed." : "";
    };
    input.addEventListener("input", apply);
  };

  // Times as the reader writes them, still in UTC.
  for (const time of document.querySelectorAll("time[datetime]")) {
    const moment = new Date(time.dateTime), clock = time.dateTime.includes("T");
    if (Number.isNaN(moment.getTime())) continue;
    const cell = time.closest("td");
    if (cell) cell.dataset.value = time.dateTime; // sorts by this
    time.textContent = moment.toLocaleString(undefined, {
      dateStyle: "medium", timeZone: "UTC", ...(clock && { timeStyle: "medium" }),
    });
  }

  for (const table of document.querySelectorAll("table.sortable")) {
    if (!table.tHead || !table.tBodies.length || unitsOf(table).length < 2) continue;
    filterable(table);
    sortable(table);
    table.classList.add("ready");
  }
})();
