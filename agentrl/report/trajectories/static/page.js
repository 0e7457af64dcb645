'use strict';
// What is shown was written by models and environments: it only ever becomes
// text (textContent) and numbers; no string becomes markup, style or address.

const LONG = 20000; // characters of one text that are shown at once
const TOKENS = 2000; // of one message
const MOST = 16; // trajectories side by side
const here = document.getElementById('view');
const inPage = (id) => JSON.parse(document.getElementById(id).textContent);
const DATA = inPage('data');
const SPANS = inPage('spans'); // number -> the name of a part of a message
// The signal that tokens are coloured by; null until one is known.
let colour = null;

// ---- Elements

function el(tag, props = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name === 'class') e.className = value;
    else if (name.startsWith('on')) e.addEventListener(name.slice(2), value);
    else if (typeof value === 'boolean') e[name] = value;
    else if (value !== undefined) e.setAttribute(name, value);
  }
  e.append(...children.flat().filter((x) => x !== null && x !== undefined));
  return e;
}

// Characters that a reader cannot see, or that reorder what they see.
const HIDDEN = new RegExp(
  '[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u061c' +
    '\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u2069' +
    '\\ufeff\\ufff9-\\ufffb\\ud800-\\udfff]',
  'g',
);

function visible(text) {
  // A pair of surrogates is one character, a lone one is hidden.
  return text.replace(/[\ud800-\udbff][\udc00-\udfff]|[^]/g, (c) =>
    c.length > 1 ? c : c.replace(HIDDEN, shown),
  );
}

function shown(c) {
  const code = c.charCodeAt(0);
  if (code < 32) return String.fromCharCode(0x2400 + code);
  if (code === 127) return '\u2421';
  return `\u27e8U+${code.toString(16).toUpperCase().padStart(4, '0')}\u27e9`;
}

function text(kind, whole) {
  const pre = el('pre', { class: kind, tabindex: '0' });
  pre.append(visible(whole.slice(0, LONG)));
  if (whole.length > LONG) {
    const rest = `… ${whole.length - LONG} more characters`;
    const more = el('button', { type: 'button' }, rest);
    more.addEventListener('click', () => {
      more.remove();
      pre.append(visible(whole.slice(LONG)));
    });
    pre.append(more);
  }
  return pre;
}

function number(x) {
  if (typeof x !== 'number') return String(x);
  if (Number.isInteger(x)) return String(x).replace('-', '\u2212');
  const size = Math.abs(x);
  const out = size >= 0.001 && size < 1e5 ? x.toFixed(3) : x.toExponential(2);
  return out.replace('-', '\u2212');
}

const words = (name) => name.replaceAll('_', ' ');
const chip = (t) => el('span', { class: `chip ${t.status}` }, words(t.status));
const note = (x) => el('p', { class: 'note' }, x);

function pairs(found) {
  const told = Object.entries(found).map(([name, x]) =>
    el('span', {}, `${words(name)} `, el('b', {}, number(x))),
  );
  return el('div', { class: 'pairs' }, told);
}

// ---- Where trajectories come from: the server, or this file

async function ask(path, query) {
  const answer = await fetch(`${path}?${new URLSearchParams(query)}`);
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}

const list = (query) => (DATA ? inFile(query) : ask('/list', query));

async function some(ids) {
  if (!DATA) return ids.length ? ask('/some', { i: ids.join(',') }) : [];
  return ids.map(
    (i) =>
      DATA.some.find((t) => t.i === i) ?? { i, error: 'not in this file' },
  );
}

// Of the file; the server does the same with its log.
function inFile(query) {
  const is = (name, value) =>
    !query[name] || String(query[name]) === String(value);
  const fits = DATA.rows.filter(
    (r) =>
      ['phase', 'status', 'task', 'group'].every((k) => is(k, r[k])) &&
      is('outcome', r.outcome > 0.5 ? 'solved' : 'unsolved') &&
      r.step >= Number(query.from || 0) &&
      r.step <= Number(query.to || Infinity),
  );
  const order = query.order || 'newest';
  const key = order === 'newest' || order === 'oldest' ? 'step' : 'reward';
  const sign = order === 'newest' || order === 'best' ? -1 : 1;
  fits.sort((a, b) => sign * (a[key] - b[key]) || a.i - b.i);
  const steps = DATA.rows.map((r) => r.step);
  const size = 100;
  const first = size * Number(query.page || 0);
  return {
    total: DATA.rows.length,
    found: fits.length,
    size,
    rows: fits.slice(first, first + size),
    phases: [...new Set(DATA.rows.map((r) => r.phase))],
    statuses: [...new Set(DATA.rows.map((r) => r.status))],
    steps: [Math.min(...steps), Math.max(...steps)],
  };
}

// ---- Signals and their colours

const finite = (x) => typeof x === 'number' && Number.isFinite(x);

// The value of a signal at token j of a turn, or of the turn (j undefined).
function at(turn, name, j) {
  const each = Object.hasOwn(turn.token, name) ? turn.token[name] : null;
  if (each && j !== undefined) return each[j];
  if (Object.hasOwn(turn.signals, name)) return turn.signals[name];
  if (name === 'reward') return turn.reward;
  const term = name.replace(/^term: /, '');
  if (term !== name) return termOf(turn, term);
  return each ? mean(each) : undefined;
}

// The entropy of a message is logged as a sum: a mean is one that compares.
function termOf(turn, name) {
  const { terms } = turn;
  return name === 'entropy' && terms.tokens ? terms.entropy / terms.tokens
    : terms[name];
}

function mean(xs) {
  const good = xs.filter(finite);
  if (!good.length) return undefined;
  return good.reduce((a, b) => a + b, 0) / good.length;
}

function names(trajectories) {
  const found = new Set(['reward']);
  for (const t of trajectories)
    for (const turn of t.turns) {
      Object.keys(turn.signals).forEach((x) => found.add(x));
      Object.keys(turn.token).forEach((x) => found.add(x));
      Object.keys(turn.terms).forEach((x) => found.add(`term: ${x}`));
    }
  return [...found].sort();
}

function limits(trajectories, name) {
  let [low, high] = [0, 0];
  for (const t of trajectories)
    for (const turn of t.turns)
      for (const x of [at(turn, name), ...(turn.token[name] ?? [])])
        if (finite(x)) [low, high] = [Math.min(low, x), Math.max(high, x)];
  return { low, high, size: Math.max(high, -low) || 1 };
}

function paint(e, x, scale) {
  if (!colour || !finite(x)) return;
  const share = Math.round(60 * Math.min(Math.abs(x) / scale.size, 1));
  const base = x < 0 ? 'var(--minus)' : 'var(--plus)';
  e.style.background = `color-mix(in srgb, ${base} ${share}%, transparent)`;
}

function legend(scale) {
  const e = el('div', { class: 'legend', id: 'legend' });
  if (!colour) return e;
  const end = (x, base) =>
    `color-mix(in srgb, var(--${base}) ` +
    `${Math.round((60 * Math.abs(x)) / scale.size)}%, transparent)`;
  const [from, to] = [end(scale.low, 'minus'), end(scale.high, 'plus')];
  const bar = el('i');
  const zero = Math.round((100 * -scale.low) / (scale.high - scale.low || 1));
  bar.style.background =
    `linear-gradient(to right, ${from}, transparent ${zero}%, ${to})`;
  const ends = [number(scale.low), bar, number(scale.high)];
  e.append(...ends);
  return e;
}

// What content(scale) draws, under a choice of colours that draws it anew.
function coloured(trajectories, content, more = null) {
  const body = el('div');
  const known = names(trajectories);
  // Keeps the colour that was chosen wherever there is such a signal.
  if (colour !== '' && !known.includes(colour))
    colour = ['advantage', 'logp'].find((x) => known.includes(x)) ?? '';
  const draw = () => {
    const scale = limits(trajectories, colour);
    const bar = [colouring(known, draw), legend(scale), more];
    body.replaceChildren(el('div', { class: 'bar' }, bar), ...content(scale));
  };
  draw();
  return body;
}

function colouring(known, again) {
  const choose = el('select', { id: 'colour' });
  choose.append(el('option', { value: '' }, 'nothing'));
  for (const name of known)
    choose.append(el('option', { value: name, selected: name === colour },
      words(name)));
  choose.addEventListener('change', () => {
    colour = choose.value;
    again();
    document.getElementById('colour').focus();
  });
  return el('label', {}, 'Colour by', choose);
}

// ---- A message, token by token

function said(turn, scale, tell) {
  const e = el('div', { class: 'said' });
  const count = turn.said.pieces.length;
  const add = (from, to) => {
    for (let j = from; j < Math.min(to, count); j++)
      e.append(token(turn, j, scale, tell));
  };
  const more = () => {
    e.lastChild.remove();
    add(TOKENS, count);
  };
  add(0, TOKENS);
  if (count > TOKENS)
    e.append(el('button', { type: 'button', onclick: more },
      `… ${count - TOKENS} more tokens`));
  return e;
}

// tell: what a click does; without it the token is not to be clicked.
function token(turn, j, scale, tell) {
  const x = colour ? at(turn, colour, j) : undefined;
  const kind = tell ? ['button', { type: 'button' }] : ['span', {}];
  const e = el(...kind, visible(turn.said.pieces[j]) || '\u2205');
  if (colour) e.title = `${words(colour)} ${number(x ?? 'none')}`;
  paint(e, x, scale);
  if (tell) e.addEventListener('click', () => tell(e, j));
  return e;
}

function tokenFacts(turn, j) {
  const each = Object.entries(turn.token).map(([k, x]) => [k, x[j]]);
  const own = { id: turn.said.tokens[j], ...Object.fromEntries(each) };
  const version = turn.said.version?.[j];
  if (version !== undefined) own.version = version;
  const span = turn.said.span?.[j];
  if (span !== undefined) own.span = SPANS[span] ?? span;
  return own;
}

function message(turn, scale) {
  const box = el('div');
  const facts = el('div', { class: 'token', hidden: true });
  box.append(
    said(turn, scale, (chosen, j) => {
      const open = chosen.getAttribute('aria-pressed') === 'true';
      box.querySelectorAll('.said button').forEach((x) =>
        x.removeAttribute('aria-pressed'),
      );
      facts.hidden = open;
      if (open) return;
      chosen.setAttribute('aria-pressed', 'true');
      facts.replaceChildren(pairs(tokenFacts(turn, j)));
    }),
    facts,
  );
  return box;
}

// ---- Views

const FIELDS = ['step', 'phase', 'task', 'group', 'member', 'status',
  'outcome', 'reward', 'turns', 'tokens'];
const WIDE = ['phase', 'group', 'member', 'outcome', 'turns', 'tokens'];
const WORD = ['phase', 'status'];
const style = (k) =>
  [WIDE.includes(k) && 'wide', WORD.includes(k) && 'word'].filter(Boolean)
    .join(' ');

async function listView(query) {
  const found = await list(query);
  const picked = new Set();
  const side = el('button', { type: 'button', id: 'side', disabled: true,
    onclick: () => go('side', [...picked].join(',')) }, 'Side by side');
  const groupAt = (r) => r && [r.step, r.phase, r.group].join();
  const rows = found.rows.map((r, i) => {
    const begins = groupAt(r) !== groupAt(found.rows[i - 1]);
    const box = el('input', { type: 'checkbox',
      'aria-label': `pick trajectory ${r.i}`, onchange: () => {
        picked[box.checked ? 'add' : 'delete'](r.i);
        side.disabled = picked.size < 2 || picked.size > MOST;
      } });
    const cell = (k) => {
      if (k === 'step')
        return el('a', { href: `#one/${r.i}` }, String(r.step));
      return k === 'status' ? chip(r) : WORD.includes(k) ? r[k] : number(r[k]);
    };
    const open = (e) => {
      if (!e.target.closest('a, input')) go('one', String(r.i));
    };
    return el('tr', { onclick: open, class: begins ? 'begins' : '' },
      el('td', {}, box),
      FIELDS.map((k) => el('td', { class: style(k) }, cell(k))));
  });
  const head = el('tr', {}, el('th'),
    FIELDS.map((k) => el('th', { class: style(k) }, k)));
  const table = el('table', { class: 'list' }, el('thead', {}, head),
    el('tbody', {}, rows));
  const page = Number(query.page || 0);
  const last = Math.max(Math.ceil(found.found / found.size) - 1, 0);
  const turn = (to, label, id) => el('button', { type: 'button', id,
    disabled: to < 0 || to > last,
    onclick: () => go('list', { ...query, page: to }) }, label);
  return [
    filters(query, found),
    note(`${found.found} of ${found.total} trajectories`),
    rows.length ? el('div', { class: 'scroll' }, table)
      : note('No trajectory fits these filters.'),
    el('div', { class: 'foot' }, side, turn(page - 1, 'Before', 'before'),
      turn(page + 1, 'Next', 'next'),
      el('span', { class: 'note' }, `page ${page + 1} of ${last + 1}`)),
  ];
}

function filters(query, found) {
  const bar = el('form', { class: 'bar' });
  const apply = () => {
    const asked = {};
    for (const e of bar.elements) if (e.value) asked[e.name] = e.value;
    go('list', asked);
  };
  bar.addEventListener('submit', (e) => {
    e.preventDefault();
    apply();
  });
  const choice = (name, values, any) => {
    const e = el('select', { name, onchange: apply });
    if (any) e.append(el('option', { value: '' }, any));
    for (const v of values)
      e.append(el('option', { value: v, selected: query[name] === v },
        words(v)));
    return el('label', {}, words(name), e);
  };
  const box = (name, hint) => el('label', {}, name.replace('from', 'from step')
    .replace(/^to$/, 'to step'),
  el('input', { type: 'number', name, min: '0', placeholder: hint ?? 'any',
    value: query[name] ?? '', onchange: apply }));
  bar.append(
    choice('phase', found.phases, 'any'),
    box('from', String(found.steps[0])), box('to', String(found.steps[1])),
    box('task'), box('group'),
    choice('outcome', ['solved', 'unsolved'], 'any'),
    choice('status', found.statuses, 'any'),
    choice('order', ['newest', 'oldest', 'best', 'worst']),
  );
  return bar;
}

function facts(t) {
  const told = ['step', 'phase', 'task', 'group', 'member', 'outcome',
    'reward'];
  return el('div', { class: 'facts' }, chip(t),
    told.map((k) => el('span', {}, `${k} `,
      el('b', {}, WORD.includes(k) ? t[k] : number(t[k])))),
    el('span', {}, 'policy version ', el('b', {}, versions(t.turns))));
}

// Of the tokens of messages: '3', or '3–5' where weights changed meanwhile.
function versions(turns) {
  const all = new Set(turns.flatMap((x) => x.said.version ?? x.version));
  if (!all.size) return 'none';
  const [first, last] = [Math.min(...all), Math.max(...all)];
  return first === last ? String(first) : `${first}–${last}`;
}

function broken(t) {
  return el('p', { class: 'problem' }, `Trajectory ${t.i}: ${t.error}`);
}

async function oneView(i, turn) {
  const [t] = await some([i]);
  if (t.error) return [broken(t)];
  const same = (await list({ task: t.task, phase: t.phase, order: 'oldest' }))
    .rows.filter((r) => r.i !== i);
  const body = coloured([t], (scale) => [strip(t, scale),
    ...t.turns.map((x) => turnView(x, scale, turn)),
    ...(t.judged || []).map(judgement)], another(t, same));
  const around = el('nav', {},
    el('a', { href: `#group/${i}`, id: 'group' }, 'Its group, side by side'),
    el('a', { href: `#tree/${i}`, id: 'tree' }, 'Its group as a tree'));
  if (turn !== undefined)
    setTimeout(() => document.getElementById(`turn-${turn}`)?.scrollIntoView());
  return [facts(t), Object.keys(t.signals).length ? pairs(t.signals) : null,
    around, body];
}

function another(t, same) {
  if (!same.length) return null;
  const choose = el('select', { id: 'same', onchange: () => {
    if (choose.value) go('side', `${t.i},${choose.value}`);
  } }, el('option', { value: '' }, 'choose …'));
  for (const r of same)
    choose.append(el('option', { value: String(r.i) },
      `step ${r.step}, ${words(r.status)}`));
  return el('label', {}, 'Same task, another time', choose);
}

function strip(t, scale) {
  const cells = t.turns.map((turn) => {
    const x = colour ? at(turn, colour) : undefined;
    const cell = el('a', { href: `#one/${t.i}/${turn.k}` }, `turn ${turn.k}`,
      el('span', {}, x === undefined ? '' : number(x)));
    paint(cell, x, scale);
    return cell;
  });
  return el('div', { class: 'strip' }, cells);
}

function judgement(x) {
  const asked = (x.questions || []).map((q) => el('div', {},
    el('p', { class: 'who' }, `question to ${x.judge}`), text('read', q.prompt),
    el('p', { class: 'who' }, 'answer'), text('said', q.answer)));
  const result = x.fault ? `no score: ${x.fault}` : number(x.score);
  const head = `${x.term} by judge ${x.judge}: ${result}`;
  return asked.length
    ? el('details', { class: 'judged' }, el('summary', {}, head), asked)
    : note(head);
}

function turnView(turn, scale, chosen) {
  const here = turn.k === chosen ? ' here' : '';
  const reward = { reward: turn.reward, ...turn.signals };
  const terms = Object.fromEntries(Object.keys(turn.terms)
    .filter((name) => turn.terms[name] !== 0)
    .map((name) => [name === 'entropy' ? 'entropy per token' : name,
      termOf(turn, name)]));
  return el('section', { class: `turn${here}`, id: `turn-${turn.k}` },
    el('h2', {}, `Turn ${turn.k}`),
    el('div', {}, el('p', { class: 'who' }, 'environment'),
      text('read', turn.read.text)),
    el('div', {}, el('p', { class: 'who' },
      `${turn.said.who}, version ${versions([turn])}`),
      message(turn, scale), pairs(reward), pairs(terms),
      (turn.judged || []).map(judgement),
      turn.scored ? null : note('Not scored: its credit is not used.')));
}

async function groupOf(i) {
  const [t] = await some([i]);
  if (t.error) return [i];
  const found = await list({ phase: t.phase, group: t.group, from: t.step,
    to: t.step, order: 'oldest' });
  return found.rows.map((r) => r.i);
}

async function sideView(ids, title) {
  const all = await some(ids.slice(0, MOST));
  const good = all.filter((t) => !t.error);
  const body = coloured(good, (scale) =>
    [el('div', { class: 'scroll' }, sideTable(good, scale))]);
  const left = ids.length - all.length;
  return [el('h2', {}, title), ...all.filter((t) => t.error).map(broken), body,
    left > 0 ? note(`${left} more are not shown.`) : null];
}

function sideTable(trajectories, scale) {
  const head = el('tr', {}, el('th', {}, 'turn'), trajectories.map((t) =>
    el('th', {}, el('a', { href: `#one/${t.i}` },
      `step ${t.step}, member ${t.member}`), ' ', chip(t),
    el('div', { class: 'facts' }, el('span', {}, 'reward ',
      el('b', {}, number(t.reward)))))));
  const turns = Math.max(0, ...trajectories.map((t) => t.turns.length));
  const rows = Array.from({ length: turns }, (_, k) =>
    el('tr', {}, el('th', {}, String(k)), trajectories.map((t) => {
      const turn = t.turns[k];
      if (!turn) return el('td');
      const x = colour ? at(turn, colour) : undefined;
      const told = { reward: turn.reward };
      if (x !== undefined && colour !== 'reward') told[colour] = x;
      return el('td', {}, text('read', turn.read.text), said(turn, scale),
        pairs(told));
    })));
  return el('table', { class: 'side' }, el('thead', {}, head),
    el('tbody', {}, rows));
}

// Turns that have the same node are one place of the tree.
function grow(trajectories) {
  const root = { next: new Map(), leaves: [] };
  for (const t of trajectories) {
    let place = root;
    for (const turn of t.turns) {
      if (!place.next.has(turn.node))
        place.next.set(turn.node, { turn, t, next: new Map(), leaves: [] });
      place = place.next.get(turn.node);
    }
    place.leaves.push(t);
  }
  return root;
}

async function treeView(i) {
  const all = (await some((await groupOf(i)).slice(0, MOST)))
    .filter((t) => !t.error);
  const body = coloured(all, (scale) =>
    [el('ul', { class: 'tree' }, branch(grow(all), scale))]);
  return [el('h2', {}, 'The group as a tree'),
    note('What several trajectories share stands once; a step to the right is a'
      + ' choice between ways to go on.'), body];
}

// A run of turns without a choice stands one below the other.
function branch(place, scale) {
  const items = [];
  for (;;) {
    for (const t of place.leaves)
      items.push(el('li', { class: 'end' }, chip(t),
        el('a', { href: `#one/${t.i}`, class: 'leaf' }, `member ${t.member}`),
        el('span', { class: 'value' }, `reward ${number(t.reward)}`)));
    const next = [...place.next.values()];
    if (next.length !== 1 || place.leaves.length) {
      for (const x of next)
        items.push(el('li', {}, el('ul', {}, nodeView(x, scale),
          branch(x, scale))));
      return items;
    }
    [place] = next;
    items.push(nodeView(place, scale));
  }
}

function nodeView(place, scale) {
  const { turn, t } = place;
  const x = colour ? at(turn, colour) : undefined;
  const told = x === undefined ? `reward ${number(turn.reward)}`
    : `${words(colour)} ${number(x)}`;
  return el('li', {}, el('details', {}, el('summary', {},
    el('a', { class: 'k', href: `#one/${t.i}/${turn.k}` }, `turn ${turn.k}`),
    said(turn, scale), el('span', { class: 'value' }, told)),
  text('read', turn.read.text)));
}

// ---- Where we are: #view/argument, so that going back works

function go(view, rest) {
  const query = typeof rest === 'string' ? rest
    : String(new URLSearchParams(rest));
  location.hash = `${view}/${query}`;
}

let drawn = 0; // of several that are under way the last one counts
let before = '#list/'; // the list that we came from

async function draw() {
  const mine = ++drawn;
  const [, view, rest] = location.hash.match(/^#(\w+)\/?(.*)$/) ?? [];
  const ids = (rest ?? '').split(/[,/]/).map(Number);
  const path = document.getElementById('path');
  if (!VIEWS[view] || view === 'list') before = location.hash || '#list/';
  let found;
  try {
    found = await (VIEWS[view] ?? VIEWS.list)(ids, rest ?? '');
  } catch (error) {
    found = [el('p', { class: 'problem' }, String(error.message))];
  }
  if (mine !== drawn) return;
  path.replaceChildren(view && view !== 'list'
    ? el('a', { href: before, id: 'back' }, '← all trajectories')
    : 'trajectories');
  here.replaceChildren(...found.filter((x) => x !== null));
  here.dataset.drawn = String(mine);
}

const VIEWS = {
  list: (_, rest) => listView(Object.fromEntries(new URLSearchParams(rest))),
  one: ([i, turn]) => oneView(i, turn),
  group: async ([i]) => sideView(await groupOf(i), 'The group, side by side'),
  side: (ids) => sideView(ids, 'Side by side'),
  tree: ([i]) => treeView(i),
};

addEventListener('hashchange', draw);
draw();
