// The map of nodes: one square each on a canvas, by what is used most or by the worst verdict; arrow keys go about.
(() => {
  "use strict";
  const box = document.getElementById("map");
  if (!box) return;
  const canvas = box.querySelector("canvas");
  const brush = canvas.getContext("2d");
  const said = document.getElementById("map-said");
  const legend = document.getElementById("legend");
  const filter = document.getElementById("filter");
  const colour = document.getElementById("colour");
  const STEPS = 7;
  const HIGHEST = 460;
  let data = null;
  let shown = [];
  let at = -1;
  let grid = { columns: 1, size: 10, gap: 1 };

  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const MOSTLY = 90; // percent looked at, from which a node without victims is shown as calm
  const slug = (verdict) => verdict.replaceAll(" ", "-");

  function palette() {
    const verdicts = data.verdicts.map((verdict) => style(`--map-${slug(verdict)}`));
    const heat = Array.from({ length: STEPS }, (_, step) => style(`--heat-${step}`));
    return { verdicts, heat, unknown: style("--heat-unknown"), calm: style("--map-calm"), text: style("--text") };
  }

  const values = () => (colour.value === "most" ? data.most : data.used[data.resources.indexOf(colour.value)]);
  const stepOf = (percent) => Math.min(STEPS - 1, Math.floor((Math.max(percent, 0) * STEPS) / 100));

  function fill(node, colours) {
    if (colour.value === "verdict") return colours.verdicts[data.verdict[node]] ?? (data.looked[node] >= MOSTLY ? colours.calm : colours.unknown);
    const percent = values()[node];
    return percent === null ? colours.unknown : colours.heat[stepOf(percent)];
  }

  function arrange() {
    const width = box.clientWidth;
    let size = 30;
    while (size > 4 && Math.ceil(shown.length / Math.floor(width / size)) * size > HIGHEST) size -= 1;
    const columns = Math.max(1, Math.floor(width / size));
    grid = { columns, size, gap: size > 12 ? 2 : 1 };
    const height = Math.max(1, Math.ceil(shown.length / columns)) * size;
    const scale = devicePixelRatio || 1;
    canvas.width = width * scale;
    canvas.height = height * scale;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    brush.setTransform(scale, 0, 0, scale, 0, 0);
  }

  const corner = (place) => [(place % grid.columns) * grid.size, Math.floor(place / grid.columns) * grid.size];

  function draw() {
    if (!data) return;
    arrange();
    const colours = palette();
    const side = grid.size - grid.gap;
    shown.forEach((node, place) => {
      const [x, y] = corner(place);
      brush.fillStyle = fill(node, colours);
      brush.fillRect(x, y, side, side);
      if (colour.value !== "verdict" && data.victims[node]) mark(x, y, side, colours.verdicts[data.verdict[node]]);
    });
    if (at >= 0 && at < shown.length) frame(...corner(at), side, colours.text);
    canvas.dataset.drawn = shown.length;
  }

  function mark(x, y, side, of) {
    const small = Math.max(2, Math.round(side * 0.45));
    brush.fillStyle = style("--surface");
    brush.fillRect(x + side - small - 1, y, small + 1, small + 1);
    brush.fillStyle = of;
    brush.fillRect(x + side - small, y, small, small);
  }

  function frame(x, y, side, of) {
    brush.lineWidth = 2;
    brush.strokeStyle = of;
    brush.strokeRect(x - 0.5, y - 0.5, side + 1, side + 1);
  }

  function describe(node) {
    const verdict = data.verdicts[data.verdict[node]];
    const parts = [data.nodes[node]];
    if (data.platform[node] >= 0) parts.push(data.platforms[data.platform[node]]);
    parts.push(`${data.residents[node]} containers`);
    const by = data.labels[data.by[node]];
    parts.push(by ? `${by} ${data.most[node]}%` : "use unknown");
    const looked = data.looked[node];
    const calm = looked ? `no victims in the ${looked}% of running container time that was looked at` : "victims unknown: not measured";
    parts.push(verdict ? `${data.victims[node]} victims, worst: ${verdict}` : calm);
    return parts.join(" · ");
  }

  function choose(place) {
    if (!shown.length) return;
    at = Math.min(Math.max(place, 0), shown.length - 1);
    said.textContent = describe(shown[at]);
    draw();
  }

  const open = (place) => location.assign(`/ui/nodes/${encodeURIComponent(data.nodes[shown[place]])}`);

  function sift() {
    const words = filter.value.trim().toLowerCase();
    const fits = (node) =>
      data.nodes[node].toLowerCase().includes(words) ||
      (data.platforms[data.platform[node]] ?? "").toLowerCase().includes(words);
    shown = data.nodes.map((_, node) => node).filter(fits);
    at = -1;
    said.textContent = words ? `${shown.length} of ${data.nodes.length} nodes` : "";
    draw();
  }

  function swatch(of, text) {
    const entry = document.createElement("span");
    const square = document.createElement("i");
    square.style.background = of;
    entry.append(square);
    if (text) entry.append(text);
    entry.className = text ? "named" : "";
    return entry;
  }

  function explain() {
    const colours = palette();
    legend.replaceChildren();
    if (colour.value !== "verdict") {
      legend.append("0%");
      colours.heat.forEach((of) => legend.append(swatch(of, "")));
      legend.append("100%", swatch(colours.unknown, "not known"));
    } else {
      legend.append(swatch(colours.calm, `no victims, at least ${MOSTLY}% looked at`), swatch(colours.unknown, "less looked at"));
    }
    const there = new Set(data.verdict);
    data.verdicts.forEach((verdict, i) => there.has(i) && legend.append(swatch(colours.verdicts[i], verdict)));
  }

  function again() {
    explain();
    draw();
  }

  const placeOf = (event) => {
    const bounds = canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - bounds.left) / grid.size);
    const place = Math.floor((event.clientY - bounds.top) / grid.size) * grid.columns + column;
    return column < grid.columns && place < shown.length ? place : -1;
  };

  canvas.addEventListener("mousemove", (event) => data && placeOf(event) >= 0 && placeOf(event) !== at && choose(placeOf(event)));
  canvas.addEventListener("click", (event) => data && placeOf(event) >= 0 && open(placeOf(event)));
  box.addEventListener("focus", () => data && at < 0 && box.matches(":focus-visible") && choose(0));
  box.addEventListener("keydown", (event) => {
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: grid.columns, ArrowUp: -grid.columns };
    if (!data) return;
    if (event.key in steps) choose(at < 0 ? 0 : at + steps[event.key]);
    else if (event.key === "Home") choose(0);
    else if (event.key === "End") choose(shown.length - 1);
    else if (event.key === "Enter" && at >= 0) open(at);
    else return;
    event.preventDefault();
  });
  filter.addEventListener("input", () => data && sift());
  colour.addEventListener("change", again);
  document.addEventListener("cohabit:theme", () => data && again());
  new ResizeObserver(draw).observe(box);

  fetch(box.dataset.from)
    .then((reply) => reply.json())
    .then((found) => {
      data = found;
      data.resources.forEach((name, i) => colour.add(new Option(data.labels[i], name)));
      sift();
      explain();
    });
})();
