// Bars of what accounts owe, stacked by kind, from the table that stands beneath them.
(() => {
  "use strict";
  const box = document.getElementById("bars");
  const table = document.getElementById("accounts");
  if (!box || !table) return;
  const kinds = [...table.tHead.rows[0].cells].filter((cell) => "kind" in cell.dataset).map((cell) => cell.textContent);
  const rows = [...table.tBodies[0].rows].slice(0, Number(box.dataset.drawnRows));
  const names = rows.map((row) => row.cells[0].textContent.trim());
  const owed = kinds.map((_, kind) => rows.map((row) => Number(row.cells[kind + 1].dataset.micros) / 1e6));
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const short = (name) => (name.length > 14 ? `${name.slice(0, 13)}…` : name);
  let plot = null;

  const axis = (more) => ({
    stroke: style("--faint"),
    grid: { stroke: style("--line"), width: 1 },
    ticks: { stroke: style("--line"), width: 1 },
    font: "12px system-ui, sans-serif",
    ...more,
  });

  function draw() {
    plot?.destroy();
    // each bar is drawn from the bottom up to its own sum and those below it, the highest one first
    const upTo = owed.map((_, kind) => rows.map((_, row) => owed.slice(0, kind + 1).reduce((sum, of) => sum + of[row], 0)));
    const order = kinds.map((_, kind) => kind).reverse();
    const bars = uPlot.paths.bars({ size: [0.6, 60] });
    const series = order.map((kind) => ({
      label: kinds[kind],
      fill: style(`--series-${kind % 5}`),
      stroke: style("--surface"),
      width: 1,
      paths: bars,
      points: { show: false },
      value: (_, __, ___, at) => (at === null ? "–" : owed[kind][at].toFixed(2)),
    }));
    const options = {
      width: box.clientWidth,
      height: 260,
      legend: { live: true },
      cursor: { drag: { setScale: false } },
      scales: { x: { time: false, range: () => [-0.6, rows.length - 0.4] } },
      series: [{ label: "account", value: (_, v) => (v === null ? "–" : names[v]) }, ...series],
      axes: [
        axis({ splits: () => names.map((_, i) => i), values: () => names.map(short), grid: { show: false } }),
        axis({ size: 76, values: (_, all) => all.map((v) => v.toLocaleString("en")) }),
      ],
    };
    plot = new uPlot(options, [names.map((_, i) => i), ...order.map((kind) => upTo[kind])], box);
    box.dataset.drawn = "1";
  }

  let wide = 0;
  new ResizeObserver(() => {
    if (box.clientWidth !== wide) {
      wide = box.clientWidth;
      draw();
    }
  }).observe(box);
  document.addEventListener("cohabit:theme", draw);
})();
