// Two charts under each other from the table of windows: the victim's slowdown, and what its neighbours used.
(() => {
  "use strict";
  const box = document.getElementById("charts");
  const table = document.getElementById("series");
  if (!box || !table) return;
  const number = (text) => (text === "nan" ? null : Number(text));
  const heads = [...table.tHead.rows[0].cells].slice(1);
  const rows = [...table.tBodies[0].rows];
  const times = rows.map((row) => Number(row.dataset.at));
  const columns = heads.map((head, i) => ({
    label: head.textContent,
    kind: head.dataset.kind,
    values: rows.map((row) => number(row.cells[i + 1].dataset.value)),
  }));
  const DASHES = [[], [6, 3], [2, 3], [8, 3, 2, 3], [12, 4]];
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const clock = (s) => new Date(s * 1000).toISOString().slice(11, 16);
  const limit = Number(box.dataset.limit);
  let plots = [];

  const axis = (more) => ({
    stroke: style("--faint"),
    grid: { stroke: style("--line"), width: 1 },
    ticks: { stroke: style("--line"), width: 1 },
    font: "12px system-ui, sans-serif",
    ...more,
  });

  function line(column, i, colour) {
    const shown = column.kind === "slowdown" ? (v) => v.toFixed(2) : (v) => `${Math.round(v * 100)}%`;
    return {
      label: column.label,
      stroke: colour,
      width: 2,
      dash: DASHES[i % DASHES.length],
      points: { show: true, size: 5, fill: style("--surface") },
      spanGaps: false,
      value: (_, v) => (v === null ? "–" : shown(v)),
    };
  }

  function atLimit(plot) {
    const y = plot.valToPos(limit, "y", true);
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.strokeStyle = style("--bad");
    ctx.setLineDash([4, 4]);
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
    ctx.restore();
  }

  function plot(title, of, colours, scale, tick, hooks) {
    const place = document.createElement("figure");
    const head = document.createElement("figcaption");
    head.textContent = title;
    place.append(head);
    box.append(place);
    const options = {
      width: box.clientWidth,
      height: 190,
      cursor: { sync: { key: "windows" }, drag: { setScale: false } },
      scales: { y: { range: scale } },
      series: [
        { value: (_, v) => (v === null ? "–" : `${clock(v)} UTC`), label: "window up to" },
        ...of.map((column, i) => line(column, i, colours[i % colours.length])),
      ],
      axes: [axis({ values: (_, all) => all.map(clock) }), axis({ size: 56, values: (_, all) => all.map(tick) })],
      hooks,
    };
    plots.push(new uPlot(options, [times, ...of.map((column) => column.values)], place));
  }

  function draw() {
    plots.forEach((one) => one.destroy());
    plots = [];
    box.replaceChildren();
    const slow = columns.filter((column) => column.kind === "slowdown");
    const used = columns.filter((column) => column.kind === "used");
    const colours = [0, 1, 2, 3, 4].map((i) => style(`--series-${i}`));
    const high = Math.max(limit, ...slow[0].values.map((v) => v ?? 0));
    plot(`Slowdown, 1.0 is its baseline; a victim above ${limit}`, slow, [style("--bad")], () => [Math.min(0.9, ...slow[0].values.map((v) => v ?? 1)), high * 1.08], (v) => v.toFixed(1), { draw: [atLimit] });
    if (used.length) {
      const most = Math.max(0.05, ...used.flatMap((column) => column.values.map((v) => v ?? 0)));
      plot("Used by its neighbours: share of the node, of CPU a share of its own cores", used, colours, () => [0, most * 1.1], (v) => `${Math.round(v * 100)}%`, {});
    }
    box.dataset.drawn = plots.length;
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
