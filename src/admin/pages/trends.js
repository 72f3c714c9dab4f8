import { Chart, Steps } from './chart.js';
import { duration, number } from './format.js';
import { html } from './html.js';
import { useData } from './live.js';
import { addressOf, refine, useAddress } from './router.js';
import { Section } from './ui.js';

const HOUR = 3_600_000;

/** Ranges, most of them named after their step. @type {readonly (readonly [step: string, label: string])[]} */
const RANGES = [
  ['minute', '6 hours'],
  ['hour', '7 days'],
  ['month', '30 days'],
  ['day', '13 months'],
];

/** @typedef {readonly [label: string, field: string, tone: 1 | 2 | 3 | 4]} Line */

/** @type {readonly Line[]} */
const PASSED = [
  ['accepted', 'accepted', 1],
  ['delivered', 'delivered', 2],
  ['retried', 'retried', 3],
  ['dead', 'dead', 4],
];
/** @type {readonly Line[]} */
const LATENCY = [
  ['half within', 'p50Ms', 2],
  ['95 %', 'p95Ms', 3],
  ['99 %', 'p99Ms', 4],
];

export function Trends() {
  const { step, range, points, busy } = useHistory('all', '', 'minute');
  // An unfinished step would look like a drop.
  const over = points.length > 1 ? points.slice(0, -1) : points;
  return html`<${Section} title="Lately" aside=${html`<${Ranges} range=${range} />`}>
    <div class="charts">
      <${Lines} title=${`Messages and deliveries per ${step}`} points=${over} lines=${PASSED} busy=${busy} />
      <${Lines} title="Waiting" points=${points} lines=${[['deliveries', 'pending', 1]]} busy=${busy} />
      <${Lines} title="From acceptance to delivery" points=${over} lines=${LATENCY} busy=${busy} format=${duration} />
      <${Lines} title="Age of what waits longest" points=${points} lines=${[['oldest', 'oldestMs', 3]]} busy=${busy}
          format=${duration} />
    </div>
  <//>`;
}

/**
 * Charts of an audience: its size, and the users who entered and left.
 *
 * @param {{ name: string, children?: import('preact').ComponentChildren }} props - `children`: in place of changes per step
 */
export function Sizes({ name, children }) {
  const { step, range, points, busy } = useHistory('audience', name, 'hour');
  return html`<${Section} title="Size and changes" aside=${html`<${Ranges} range=${range} />`}>
    <div class="charts">
      <${Lines} title="Members" points=${points} lines=${[['members', 'members', 1]]} busy=${busy} isSize
          format=${number} />
      ${children ?? html`<${Steps} step=${step} points=${points} busy=${busy} />`}
    </div>
  <//>`;
}

/** @type {readonly Line[]} */
const ANSWERS = [
  ['taken', 'succeeded', 2],
  ['failed', 'retried', 3],
  ['refused', 'refused', 4],
];

/** Charts of an endpoint: its answers. @param {{ id: string }} props */
export function Answers({ id }) {
  const { step, range, points, busy } = useHistory('endpoint', id, 'minute');
  const over = points.length > 1 ? points.slice(0, -1) : points;
  return html`<${Section} title="Answers" aside=${html`<${Ranges} range=${range} />`}><div class="charts">
    <${Lines} title=${`Attempts per ${step}`} points=${over} lines=${ANSWERS} busy=${busy} />
    <${Lines} title="Time until the answer" points=${over} lines=${LATENCY} busy=${busy} format=${duration} />
  </div><//>`;
}

/**
 * The history in steps of the address.
 *
 * @param {string} of @param {string} name @param {string} usual - the step, if the address has none
 * @returns {{ step: string, range: string, points: readonly any[], busy: boolean }} - `busy`: still loading
 */
function useHistory(of, name, usual) {
  const { query } = useAddress();
  const range = RANGES.some(([known]) => known === query['step']) ? (query['step'] ?? usual) : usual;
  const step = range === 'month' ? 'hour' : range;
  const since =
    range === 'month' ? new Date(HOUR * (Math.floor(Date.now() / HOUR) - 30 * 24)).toISOString() : undefined;
  const { data, error } = useData(addressOf('/history', { of, name, step, since }), ['history']);
  return { step, range, points: data?.data ?? [], busy: data === null && error === null };
}

/** @param {{ range: string }} props */
function Ranges({ range }) {
  const { query } = useAddress();
  return html`<div class="ranges" role="group" aria-label="How far back">${RANGES.map(
    ([value, label]) =>
      html`<button key=${value} type="button" class="bare" aria-pressed=${value === range}
          onClick=${() => refine({ ...query, step: value })}>
        ${label}
      </button>`,
  )}</div>`;
}

/** @param {{ title: string, points: readonly any[], lines: readonly Line[], busy: boolean, isSize?: boolean, format?: (value: number) => string }} props */
function Lines({ title, points, lines, ...props }) {
  const series = lines.map(([label, field, tone]) => ({
    label,
    tone,
    values: points.map((point) => point[field] ?? null),
  }));
  return html`<${Chart} title=${title} times=${points.map(({ at }) => Date.parse(at))} series=${series} ...${props} />`;
}
