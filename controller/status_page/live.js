// Keeps the page as the controller serves it now, and tells the value of a curve under the pointer.
// Without it the page reloads itself every five seconds.
const kPeriodMs = 2000;
const live = document.getElementById('live');
const button = document.getElementById('pause');
const points = new Map();  // by job: what /jobs/ID.json answered, null once it is old
let paused = false;

function say(text, failure) {
  if (live.textContent !== text) live.textContent = text;
  live.classList.toggle('said', !failure);
}

// Makes `from` equal to `to` and keeps what did not change: focus, selection, scrolling. Elements
// with data-own belong to this script.
function morph(from, to) {
  if (from.nodeType !== Node.ELEMENT_NODE) {
    if (from.nodeValue !== to.nodeValue) from.nodeValue = to.nodeValue;
    return;
  }
  if ('own' in from.dataset) return;
  for (const { name } of [...from.attributes]) if (!to.hasAttribute(name)) from.removeAttribute(name);
  for (const { name, value } of to.attributes) {
    if (from.getAttribute(name) !== value) from.setAttribute(name, value);
  }
  const keyed = new Map();
  for (const child of from.children) if (child.dataset.key) keyed.set(child.dataset.key, child);
  let at = from.firstChild;
  for (const next of [...to.childNodes]) {
    const key = next.dataset?.key;
    const match = key ? keyed.get(key) : at?.nodeName === next.nodeName && !at.dataset?.key ? at : null;
    if (!match) {
      from.insertBefore(document.importNode(next, true), at);
      continue;
    }
    if (match === at) at = at.nextSibling;
    else from.insertBefore(match, at);
    morph(match, next);
  }
  while (at) {
    const gone = at;
    at = at.nextSibling;
    gone.remove();
  }
}

function states() {
  return new Map([...document.querySelectorAll('[data-state]')].map((e) => [e.dataset.state, e.textContent]));
}

async function refresh() {
  const response = await fetch(location.pathname, { cache: 'no-store', signal: AbortSignal.timeout(5000) });
  if (!response.ok) throw new Error((await response.text()).trim());
  const next = new DOMParser().parseFromString(await response.text(), 'text/html');
  const before = states();
  morph(document.querySelector('header'), next.querySelector('header'));
  morph(document.querySelector('main'), next.querySelector('main'));
  points.clear();
  const changed = [...states()].filter(([job, state]) => before.has(job) && before.get(job) !== state);
  if (changed.length) say(changed.map(([job, state]) => `${job} is ${state}`).join(', '), false);
  else if (!live.classList.contains('said')) say('', false);
}

async function run() {
  if (!paused && !document.hidden) {
    try {
      await refresh();
    } catch (error) {
      const asOf = document.querySelector('.asof time').textContent;
      say(`Not updated since ${asOf} UTC: ${error.name === 'Error' ? error.message : 'the controller does not answer'}.`, true);
    }
  }
  setTimeout(run, kPeriodMs);
}

button.hidden = false;
button.addEventListener('click', () => {
  paused = !paused;
  button.setAttribute('aria-pressed', String(paused));
});
setTimeout(run, kPeriodMs);

// Shows the point of a curve that `choose` picks from the steps and the point shown last.
async function read(figure, choose) {
  const svg = figure.querySelector('svg');
  const { job, curve } = figure.dataset;
  if (!points.has(job)) points.set(job, fetch(`/jobs/${job}.json`).then((r) => r.json()).catch(() => null));
  const data = await points.get(job);
  if (!data?.step.length) return;
  figure.at = choose(data.step, Math.min(figure.at ?? Infinity, data.step.length - 1));
  const [from, to, step] = [Number(svg.dataset.from), Number(svg.dataset.to), data.step[figure.at]];
  const x = to > from ? 1000 * (step - from) / (to - from) : 500;
  svg.querySelector('.cursor').setAttribute('d', `M${x} 0V100`);
  const value = data[curve][figure.at]?.toLocaleString('en-US', { maximumSignificantDigits: 6 });
  figure.querySelector('output').textContent = `step ${step}: ${value ?? 'not finite'}`;
}

function leave(figure) {
  figure.querySelector('.cursor').setAttribute('d', '');
  figure.querySelector('output').textContent = '';
}

const plotOf = (event) => event.target.closest?.('.curve svg');

document.addEventListener('pointermove', (event) => {
  const svg = plotOf(event);
  if (!svg) return;
  const box = svg.getBoundingClientRect();
  const [from, to] = [Number(svg.dataset.from), Number(svg.dataset.to)];
  const wanted = from + (to - from) * (event.clientX - box.left) / box.width;
  read(svg.closest('.curve'), (steps) =>
    steps.reduce((best, step, i) => Math.abs(step - wanted) < Math.abs(steps[best] - wanted) ? i : best, 0));
});

for (const kind of ['pointerout', 'focusout']) {
  document.addEventListener(kind, (event) => {
    const svg = plotOf(event);
    if (svg) leave(svg.closest('.curve'));
  });
}

document.addEventListener('keydown', (event) => {
  const svg = plotOf(event);
  const move = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
  if (!svg || !move) return;
  event.preventDefault();
  read(svg.closest('.curve'), (steps, at) => Math.min(Math.max(at + move, 0), steps.length - 1));
});
