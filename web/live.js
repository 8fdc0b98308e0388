// The live page: requests live.json every two seconds and shows its content.
//
// All content of the run is set as text, never as markup: samples are the user's data. Elements are
// updated in place, so that focus, scroll position and open details do not change.
'use strict';

const kPause = 2000; // milliseconds
const kShortPause = 200; // while the logs are being read
const kColours = 8;
const byId = (id) => document.getElementById(id);
const page = {charts: new Map(), paused: false, stamp: '', timer: 0};

function element(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// One child for each item, created once and then updated in place.
function fill(parent, items, make, update) {
  while (parent.children.length > items.length) parent.lastElementChild.remove();
  items.forEach((item, i) => {
    if (!parent.children[i]) parent.append(make(item));
    update(parent.children[i], item);
  });
}

// Numbers.

function short(value) {
  const size = Math.abs(value);
  if (size >= 1e9) return `${+(value / 1e9).toPrecision(4)}G`;
  if (size >= 1e6) return `${+(value / 1e6).toPrecision(4)}M`;
  if (size >= 1e4) return `${+(value / 1e3).toPrecision(4)}k`;
  if (size > 0 && size < 1e-3) return value.toExponential(1);
  return `${+value.toPrecision(4)}`;
}

const exact = (value) => value.toLocaleString('en', {maximumSignificantDigits: 5});

// Theme: the system's unless the user chose one.

const dark = window.matchMedia('(prefers-color-scheme: dark)');
const themes = ['system', 'light', 'dark'];

function chosenTheme() {
  try {
    return themes.includes(localStorage.getItem('theme')) ? localStorage.getItem('theme') : 'system';
  } catch (e) {
    return page.theme || 'system'; // storage may be forbidden
  }
}

function showTheme() {
  const chosen = chosenTheme();
  const isDark = chosen === 'dark' || (chosen === 'system' && dark.matches);
  document.documentElement.dataset.theme = isDark ? 'dark' : 'light';
  setText(byId('theme'), `Theme: ${chosen}`);
  page.charts.forEach(paint);
}

byId('theme').addEventListener('click', () => {
  page.theme = themes[(themes.indexOf(chosenTheme()) + 1) % themes.length];
  try {
    localStorage.setItem('theme', page.theme);
  } catch (e) { /* then only for this page */ }
  showTheme();
});
dark.addEventListener('change', showTheme);

// Charts.

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function axis(title) {
  return {
    type: 'linear',
    ...(title === 'step' ? {bounds: 'data', min: 0} : {}),
    title: {display: Boolean(title), text: title},
    ticks: {callback: short, maxRotation: 0, autoSkipPadding: 16, maxTicksLimit: 8},
    grid: {},
  };
}

function newChart(id) {
  const figure = element('figure');
  figure.id = `chart-${id}`;
  const caption = element('figcaption');
  caption.append(element('h3'), element('span', 'soft'));
  const plot = element('div', 'plot');
  const canvas = element('canvas');
  canvas.tabIndex = 0;
  canvas.setAttribute('role', 'img');
  plot.append(canvas);
  const readout = element('output', 'readout');
  const legend = element('div', 'legend');
  legend.setAttribute('role', 'group');
  const details = element('details');
  const table = element('table', 'numbers');
  const wide = element('div', 'wide');
  wide.append(table);
  details.append(element('summary', '', 'Values as a table'), wide);
  figure.append(caption, plot, readout, legend, details);
  byId('chart-list').append(figure);
  const chart = new Chart(canvas, {
    type: 'line',
    data: {datasets: []},
    options: {
      animation: false,
      parsing: false,
      normalized: true,
      maintainAspectRatio: false,
      interaction: {mode: 'nearest', axis: 'x', intersect: false},
      plugins: {
        legend: {display: false},
        tooltip: {callbacks: {title: (items) => items.length ? `step ${exact(items[0].parsed.x)}` : '',
          label: (item) => `${item.dataset.label}: ${exact(item.parsed.y)}`}},
      },
      scales: {x: axis('step'), y: axis('')},
    },
  });
  const shown = {figure, canvas, readout, legend, details, table, chart, hidden: new Set(), at: -1};
  canvas.addEventListener('keydown', (event) => walk(event, shown));
  canvas.addEventListener('blur', () => point(shown, -1));
  details.addEventListener('toggle', () => fillTable(shown));
  return shown;
}

function paint(shown) {
  const {chart} = shown;
  const soft = colour('--soft');
  for (const scale of Object.values(chart.options.scales)) {
    scale.ticks.color = soft;
    scale.title.color = soft;
    scale.grid.color = colour('--line');
    scale.grid.borderColor = colour('--line');
  }
  chart.data.datasets.forEach((set, i) => {
    const line = colour(`--s${i % kColours}`);
    set.borderColor = line;
    set.backgroundColor = set.fill ? `${line}99` : line;
    set.pointBackgroundColor = line;
    set.pointBorderColor = line;
    const key = shown.legend.children[i] && shown.legend.children[i].querySelector('.key');
    if (key) key.style.background = line;
  });
  chart.update('none');
}

// Dots for few points; many would overlap, and are drawn as a line only.
function pointRadius({dots, points}) {
  if (points.length === 1) return 3;
  return dots && points.length <= 60 ? 3 : 0;
}

function datasets(data, hidden) {
  return data.series.map((series, i) => ({
    label: series.name,
    data: series.points.map(([x, y]) => ({x, y})),
    hidden: hidden.has(series.name),
    borderWidth: data.stacked ? 1 : 2,
    pointRadius: pointRadius(series),
    pointHitRadius: 6,
    tension: 0,
    fill: data.stacked ? (i === 0 ? 'origin' : '-1') : false,
  }));
}

function showChart(data) {
  if (!page.charts.has(data.id)) page.charts.set(data.id, newChart(data.id));
  const shown = page.charts.get(data.id);
  const text = JSON.stringify(data.series);
  if (shown.text === text) return;
  shown.text = text;
  shown.data = data;
  const [title, unit] = shown.figure.querySelector('figcaption').children;
  setText(title, data.title);
  setText(unit, data.unit);
  shown.canvas.setAttribute('aria-label', `${data.title}. ${data.summary}`);
  shown.legend.setAttribute('aria-label', `Lines of ${data.title}`);
  shown.chart.options.scales.y.beginAtZero = data.fromZero;
  shown.chart.options.scales.y.stacked = data.stacked;
  shown.chart.data.datasets = datasets(data, shown.hidden);
  fill(shown.legend, data.series, () => newKey(shown), (button, series) => {
    setText(button.lastElementChild, series.name);
    button.setAttribute('aria-pressed', String(!shown.hidden.has(series.name)));
  });
  shown.legend.hidden = data.series.length < 2;
  paint(shown);
  fillTable(shown);
}

function newKey(shown) {
  const button = element('button');
  button.type = 'button';
  button.append(element('span', 'key'), element('span'));
  button.addEventListener('click', () => {
    const name = button.lastElementChild.textContent;
    if (!shown.hidden.delete(name)) shown.hidden.add(name);
    button.setAttribute('aria-pressed', String(!shown.hidden.has(name)));
    shown.chart.data.datasets.forEach((set) => { set.hidden = shown.hidden.has(set.label); });
    shown.chart.update('none');
  });
  return button;
}

// About a dozen rows of every series: the chart as a table.
function fillTable(shown) {
  if (!shown.details.open || !shown.data) return;
  const {series} = shown.data;
  const longest = series.reduce((a, b) => (b.points.length > a.points.length ? b : a));
  const every = Math.max(1, Math.floor(longest.points.length / 12));
  const steps = longest.points.map(([x]) => x)
    .filter((x, i, all) => i % every === 0 || i === all.length - 1);
  const head = element('tr');
  ['step', ...series.map((s) => s.name)].forEach((name) => {
    const cell = element('th', '', name);
    cell.scope = 'col';
    head.append(cell);
  });
  const rows = steps.map((x) => {
    const row = element('tr');
    row.append(element('td', '', exact(x)), ...series.map((s) => {
      const before = s.points.filter(([at]) => at <= x);
      return element('td', '', before.length ? exact(before[before.length - 1][1]) : '');
    }));
    return row;
  });
  shown.table.replaceChildren(head, ...rows);
}

function point(shown, index) {
  shown.at = index;
  const first = shown.chart.data.datasets.findIndex((set) => !set.hidden);
  const active = index < 0 || first < 0 ? [] : [{datasetIndex: first, index}];
  if (active.length) {
    const {x} = shown.chart.data.datasets[first].data[index];
    shown.chart.data.datasets.forEach((set, i) => {
      const same = set.data.findIndex((p) => p.x === x);
      if (i !== first && !set.hidden && same >= 0) active.push({datasetIndex: i, index: same});
    });
    setText(shown.readout, `step ${exact(x)}: ${active.map((a) => {
      const set = shown.chart.data.datasets[a.datasetIndex];
      return `${set.label} ${exact(set.data[a.index].y)}`;
    }).join(', ')}`);
  } else {
    setText(shown.readout, '');
  }
  shown.chart.setActiveElements(active);
  shown.chart.tooltip.setActiveElements(active, {x: 0, y: 0});
  shown.chart.update('none');
}

function walk(event, shown) {
  const set = shown.chart.data.datasets.find((s) => !s.hidden);
  if (!set || !set.data.length) return;
  const last = set.data.length - 1;
  const stride = event.shiftKey ? Math.ceil(last / 10) : 1;
  const from = shown.at < 0 ? last + (event.key === 'ArrowLeft' ? 1 : -1) : shown.at;
  const to = {ArrowLeft: from - stride, ArrowRight: from + stride, Home: 0, End: last}[event.key];
  if (event.key === 'Escape') point(shown, -1);
  if (to === undefined) return;
  event.preventDefault();
  point(shown, Math.min(last, Math.max(0, to)));
}

// The other sections.

function showFacts(facts) {
  fill(byId('facts'), facts, () => {
    const tile = element('div');
    tile.append(element('dt'), element('dd', 'value'), element('dd', 'detail'));
    return tile;
  }, (tile, fact) => {
    const [name, value, detail] = tile.children;
    setText(name, fact.name);
    setText(value, fact.value);
    setText(detail, fact.detail);
    detail.hidden = !fact.detail;
  });
}

function showVerdicts(verdicts) {
  fill(byId('verdict-cards'), verdicts, () => {
    const card = element('article');
    const rule = element('details');
    rule.append(element('summary', '', 'Rule'), element('p', 'soft'));
    card.append(element('h3'), element('p', 'verdict'), element('p'), element('p'), element('p'), rule);
    return card;
  }, (card, v) => {
    const [about, verdict, summary, because, advice, rule] = card.children;
    setText(about, v.about);
    setText(verdict, v.confidence ? `${v.verdict} (confidence ${v.confidence})` : v.verdict);
    setText(summary, v.summary);
    summary.hidden = !v.summary;
    setText(because, v.because);
    setText(advice, v.advice ? `Advice: ${v.advice}.` : '');
    advice.hidden = !v.advice;
    setText(rule.lastElementChild, `${v.rule}.`);
  });
}

function newMeter() {
  const meter = element('div', 'meter');
  const bar = element('span', 'bar');
  bar.setAttribute('aria-hidden', 'true');
  bar.append(element('span'));
  meter.append(element('span'), bar);
  return meter;
}

function setMeter(meter, {share, text}) {
  setText(meter.firstElementChild, text);
  meter.lastElementChild.firstElementChild.style.width = `${100 * share}%`;
}

function showHosts(hosts) {
  byId('hosts').hidden = hosts.length === 0;
  fill(byId('host-rows'), hosts, () => {
    const row = element('tr');
    const name = element('th');
    name.scope = 'row';
    row.append(name, ...['CPU', 'memory', 'network', 'GPUs'].map((label) => {
      const cell = element('td');
      cell.dataset.label = label; // shown where the screen is too narrow for a table head
      return cell;
    }));
    return row;
  }, (row, host) => {
    const [name, ...cells] = row.children;
    setText(name, `${host.host} (rank ${host.rank})`);
    [[host.cpu], [host.memory], host.network, host.gpus].forEach((meters, i) => {
      fill(cells[i], meters, newMeter, setMeter);
    });
  });
}

function fillRows(rows, shown) {
  fill(byId(rows), shown, () => element('tr'), (row, cells) => {
    fill(row, cells, () => element('td'), setText);
  });
}

// A job has ranks or, if it is elastic, workers with lasting numbers.
function showWorkers(run) {
  byId('ranks').hidden = run.ranks.length === 0;
  byId('workers').hidden = run.workers.length === 0;
  byId('changes').hidden = run.worker_changes.length === 0;
  fillRows('rank-rows', run.ranks);
  fillRows('worker-rows', run.workers);
  fillRows('change-rows', run.worker_changes);
  const link = byId('ranks-link');
  const elastic = run.workers.length > 0;
  setText(link, elastic ? 'Workers' : 'Ranks');
  link.setAttribute('href', elastic ? '#workers' : '#ranks');
}

function showSamples(samples) {
  byId('samples').hidden = samples.length === 0;
  fill(byId('sample-list'), samples, () => {
    const list = element('dl', 'sample');
    ['source', 'reference', 'translation'].forEach((name) => {
      list.append(element('dt', '', name), element('dd'));
    });
    return list;
  }, (list, sample) => {
    setText(list.children[1], sample.source);
    setText(list.children[3], sample.reference);
    setText(list.children[5], sample.hypothesis || '(empty)');
  });
}

function showLog(lines) {
  const box = byId('log-lines');
  const text = lines.join('\n');
  if (box.textContent === text) return;
  const atEnd = box.scrollTop + box.clientHeight >= box.scrollHeight - 8;
  box.textContent = text;
  if (atEnd) box.scrollTop = box.scrollHeight;
}

function showState(kind, text) {
  const state = byId('state');
  state.className = `state ${kind}`;
  setText(state, text); // screen readers announce each change, and nothing else
}

function show(run) {
  setText(byId('name'), run.name);
  showState(run.state.kind, run.state.text);
  document.title = `${run.facts.length ? `step ${run.facts[0].value} - ` : ''}${run.name} - Reigen`;
  byId('notes').hidden = run.notes.length === 0;
  fill(byId('notes-list'), run.notes, () => element('li'), setText);
  showFacts(run.facts);
  byId('verdicts').hidden = run.verdicts.length === 0;
  showVerdicts(run.verdicts);
  byId('charts').hidden = run.charts.length === 0;
  const wanted = new Set(run.charts.map((c) => c.id));
  page.charts.forEach((shown, id) => {
    if (wanted.has(id)) return;
    shown.chart.destroy();
    shown.figure.remove();
    page.charts.delete(id);
  });
  run.charts.forEach((data, i) => {
    showChart(data);
    const {figure} = page.charts.get(data.id);
    const list = byId('chart-list');
    if (list.children[i] !== figure) list.insertBefore(figure, list.children[i]);
  });
  showHosts(run.hosts);
  showWorkers(run);
  showSamples(run.samples);
  showLog(run.log);
}

// Requests.

async function update() {
  clearTimeout(page.timer);
  try {
    const answer = await fetch(`live.json${location.search}`, {cache: 'no-store'});
    if (!answer.ok) throw new Error(await answer.text());
    const text = await answer.text();
    if (text !== page.text) {
      page.run = JSON.parse(text);
      show(page.run);
    }
    page.text = text;
    page.stamp = new Date().toLocaleTimeString();
    setText(byId('updated'), `as of ${page.stamp}`);
  } catch (error) {
    page.text = '';
    showState('unreachable', 'no answer: the program that serves this page has ended or cannot be reached; '
      + '`reigen dashboard RUN` serves it again');
    setText(byId('updated'), page.stamp ? `last answer at ${page.stamp}; retrying` : 'retrying');
  }
  const reading = page.run && page.run.state.kind === 'reading';
  if (!page.paused) page.timer = setTimeout(update, reading ? kShortPause : kPause);
}

byId('pause').addEventListener('click', () => {
  page.paused = !page.paused;
  byId('pause').setAttribute('aria-pressed', String(page.paused));
  if (page.paused) {
    clearTimeout(page.timer);
    setText(byId('updated'), `paused; as of ${page.stamp}`);
  } else {
    update();
  }
});

// A hidden page sends no requests.
document.addEventListener('visibilitychange', () => {
  clearTimeout(page.timer);
  if (!document.hidden && !page.paused) update();
});

showTheme();
update();
