import { useState } from 'preact/hooks';
import { moment, short } from './format.js';
import { html } from './html.js';
import { Table, Time } from './ui.js';

/**
 * @typedef {object} Series
 * @property {string} label
 * @property {readonly (number | null)[]} values - one for each time; null if unknown
 * @property {1 | 2 | 3 | 4} tone - of charts.css
 */

/** Lines are drawn in this space and stretched to fit. Labels are outside of it, since they must not be stretched. */
const [WIDTH, HEIGHT] = [1_000, 100];

/**
 * Lines over time. Arrow keys move from one time to the next, and a table has every value.
 *
 * @param {{
 *   title: string, times: readonly number[], series: readonly Series[], busy?: boolean, isSize?: boolean, format?: (value: number) => string,
 * }} props - `times`: milliseconds since 1970, in order; `busy`: still loading; `isSize`: the axis need not begin at 0
 */
export function Chart({ title, times, series, busy = false, isSize = false, format = short }) {
  const [hovered, setHovered] = useState(/** @type {number | null} */ (null));
  const [spoken, setSpoken] = useState('');
  const [first = 0, last = first] = [times[0], times.at(-1)];
  const known = series.flatMap(({ values }) => values.filter((value) => value !== null));
  const isKnown = known.length > 0;
  const [lowest = 0, highest = 1] = isSize && isKnown ? niceAround(known) : [0, niceAbove(Math.max(0, ...known))];
  /** @param {number} time */
  const x = (time) => (last === first ? WIDTH : (WIDTH * (time - first)) / (last - first));
  /** @param {number} value */
  const y = (value) => HEIGHT - (HEIGHT * (value - lowest)) / (highest - lowest);
  /** @param {any} event */
  const hover = ({ clientX, currentTarget }) => {
    const { left, width } = currentTarget.getBoundingClientRect();
    const time = first + ((last - first) * (clientX - left)) / width;
    setHovered(nearest(times, time));
  };
  const at = hovered !== null && hovered < times.length ? hovered : null;
  const now = Date.now();
  /** @param {KeyboardEvent} event */
  const press = (event) => {
    const next = moved(event.key, at ?? times.length, times.length);
    if (next === null) return;
    event.preventDefault();
    setHovered(next);
    const values = series.map(({ label, values }) => `${label} ${valueAt(values, next, format)}`);
    setSpoken(`${moment(times[next] ?? 0, now)}: ${values.join(', ')}`);
  };
  return html`<figure class="chart" aria-busy=${busy}>
    <figcaption>
      <span>${title}</span>
      <b>${at === null ? '' : moment(times[at] ?? 0, now)}</b>
      <span class="legend">${series.map(
        ({ label, tone, values }) =>
          html`<span key=${label} class=${`tone-${tone}`}>
            ${label}
            ${at === null ? '' : ` ${valueAt(values, at, format)}`}
          </span>`,
      )}</span>
    </figcaption>
    <div class="plot">
      <div class="scale" aria-hidden="true">${
        isKnown &&
        [highest, (highest + lowest) / 2, lowest].map(
          (value) => html`<span key=${value}>
            ${format(value)}
          </span>`,
        )
      }</div>
      <div class="lines" role="group" tabindex="0" aria-label=${inWords(title, series, format)} onKeyDown=${press}
          onBlur=${() => setHovered(null)} onPointerMove=${hover} onPointerLeave=${() => setHovered(null)}>
        <svg aria-hidden="true" viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none">
          ${[0, 0.5, 1].map((part) => html`<line key=${part} class="axis" x1="0" x2=${WIDTH} y1=${part * HEIGHT} y2=${part * HEIGHT} />`)}
          ${series.map(({ label, tone, values }) => html`<path key=${label} class=${`line tone-${tone}`} d=${pathOf(times, values, x, y)} />`)}
          ${series.map(({ label, tone, values }) => html`<path key=${`${label} alone`} class=${`line alone tone-${tone}`} d=${aloneOf(times, values, x, y)} />`)}
          ${at !== null && html`<line class="cursor" x1=${x(times[at] ?? 0)} x2=${x(times[at] ?? 0)} y1="0" y2=${HEIGHT} />`}
        </svg>
        ${!isKnown && !busy && html`<p>Nothing is known yet.</p>`}
      </div>
      <div class="times" aria-hidden="true">
        ${timeLabels(first, last).map((label, index) => html`<span key=${index}>${label}</span>`)}
      </div>
    </div>
    <${Behind} ...${{ title, times, series, format }} />
    <span class="unseen" aria-live="polite">${spoken}</span>
  </figure>`;
}

/** The index that a key moves to; null for other keys. @param {string} key @param {number} at @param {number} length */
function moved(key, at, length) {
  if (length === 0) return null;
  /** @type {Record<string, number>} */
  const places = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: length - 1 };
  const place = Object.hasOwn(places, key) ? places[key] : undefined;
  return place === undefined ? null : Math.min(length - 1, Math.max(0, place));
}

/**
 * The values as a table, newest first. It is built when it is opened.
 *
 * @param {{ title: string, times: readonly number[], series: readonly Series[], format: (value: number) => string }} props
 */
function Behind({ title, times, series, format }) {
  const [open, setOpen] = useState(false);
  const rows = open
    ? times
        .map((time, index) => ({ time, index }))
        .filter(({ index }) => series.some(({ values }) => (values[index] ?? null) !== null))
        .toReversed()
    : [];
  const columns = [
    { title: 'When', cell: (/** @type {any} */ { time }) => html`<${Time} at=${time} ago=${false} />` },
    ...series.map(({ label, values }) => ({
      title: label,
      number: true,
      cell: (/** @type {any} */ { index }) => valueAt(values, index, format),
    })),
  ];
  return html`<details onToggle=${(/** @type {any} */ event) => setOpen(event.currentTarget.open)}>
    <summary>Table<span class="unseen"> of ${title}</span></summary>
    ${
      open &&
      html`<div class="behind" tabindex="0" role="region" aria-label=${`Table of ${title}`}>
        <${Table} caption=${title} columns=${columns} rows=${rows}
            keyOf=${(/** @type {any} */ { time }) => String(time)} />
      </div>`
    }
  </details>`;
}

/** The end of an axis: 2, 4, 10, 20, 40, …, whose halves are whole. @param {number} value */
function niceAbove(value) {
  if (value <= 2) return value <= 0 ? 10 : 2;
  const power = 10 ** Math.floor(Math.log10(value));
  return power * ([1, 2, 4].find((step) => step * power >= value) ?? 10);
}

/** The ends of an axis that shows a small change of a large size. @param {readonly number[]} values */
function niceAround(values) {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const step = niceAbove(Math.max(20, most - least)) / 2;
  const lowest = step * Math.floor(least / step);
  return least < most / 2 ? [0, niceAbove(most)] : [lowest, Math.max(lowest + step, step * Math.ceil(most / step))];
}

/** @param {readonly number[]} times @param {number} time */
function nearest(times, time) {
  let best = 0;
  for (let index = 1; index < times.length; index += 1) {
    if (Math.abs((times[index] ?? 0) - time) < Math.abs((times[best] ?? 0) - time)) best = index;
  }
  return times.length === 0 ? null : best;
}

/**
 * @param {readonly number[]} times
 * @param {readonly (number | null)[]} values
 * @param {(time: number) => number} x
 * @param {(value: number) => number} y
 */
function pathOf(times, values, x, y) {
  let step = 'M';
  const steps = times.map((time, index) => {
    const value = values[index] ?? null;
    if (value === null) {
      step = 'M';
      return '';
    }
    const part = `${step}${x(time).toFixed(1)} ${y(value).toFixed(1)}`;
    step = 'L';
    return part;
  });
  return steps.join('');
}

/**
 * Points without a neighbour, which would not show in a line.
 *
 * @type {typeof pathOf}
 */
function aloneOf(times, values, x, y) {
  const isKnown = (/** @type {number} */ index) => (values[index] ?? null) !== null;
  return times
    .map((time, index) =>
      isKnown(index) && !isKnown(index - 1) && !isKnown(index + 1)
        ? `M${x(time).toFixed(1)} ${y(values[index] ?? 0).toFixed(1)}h0`
        : '',
    )
    .join('');
}

const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' });
const day = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' });
const DAYS = 2 * 24 * 60 * 60 * 1_000;

/** @param {number} first @param {number} last */
function timeLabels(first, last) {
  // Reserve the space before the data arrives.
  if (last === 0) return ['\u00a0'];
  const format = last - first > DAYS ? day : clock;
  return first === last
    ? ['', format.format(last)]
    : [first, (first + last) / 2, last].map((time) => format.format(time));
}

/** @param {readonly (number | null)[]} values @param {number} index @param {(value: number) => string} format */
function valueAt(values, index, format) {
  const value = values[index];
  return value === null || value === undefined ? '–' : format(value);
}

/** @param {string} title @param {readonly Series[]} series @param {(value: number) => string} format */
function inWords(title, series, format) {
  const told = series.map(({ label, values }) => {
    const known = values.filter((value) => value !== null);
    const last = known.at(-1);
    if (last === undefined) return `${label}: nothing yet`;
    return `${label}: now ${format(last)}, lowest ${format(Math.min(...known))}, highest ${format(Math.max(...known))}`;
  });
  return `${title}. ${told.join('; ')}.`;
}

/** @typedef {{ entered: number, exited: number }} Change */

/**
 * Users who entered (up) and left (down) in each of the last runs. Each bar leads to its run.
 *
 * @param {{ runs: readonly (Change & { id: string, label: string, href: string })[], title: string, changed: boolean }} props - oldest
 *   first; `changed`: those with another value count too
 */
export function Bars({ runs, title, changed }) {
  return html`<figure class="chart">
    <${BarsCaption} title=${title} changed=${changed} />
    <${BarsDrawn} title=${title} role="group" changes=${runs} bar=${(
      /** @type {any} */ { id, label, href },
      /** @type {any} */ shape,
    ) => html`<a key=${id} href=${href} aria-label=${label}><title>${label}</title>${shape}</a>`} />
  </figure>`;
}

/** The most bars side by side. */
const ROOM = 100;

/**
 * Users who entered and left in each step of time. If there are too many steps, one bar stands for several.
 *
 * @param {{ step: string, points: readonly any[], busy: boolean }} props
 */
export function Steps({ step, points, busy }) {
  const title = `Entered and exited per ${step}`;
  const times = points.map(({ at }) => Date.parse(at));
  /** @type {Series[]} */
  const series = [
    { label: 'entered', tone: 2, values: points.map(({ entered }) => entered ?? null) },
    { label: 'exited', tone: 4, values: points.map(({ exited }) => exited ?? null) },
  ];
  const now = Date.now();
  const size = Math.ceil(points.length / ROOM);
  const changes = Array.from({ length: Math.ceil(points.length / size) }, (_, index) => {
    const entered = sumOf(series[0], index * size, size);
    const exited = sumOf(series[1], index * size, size);
    const label = `${moment(times[index * size] ?? 0, now)}: ${short(entered)} entered, ${short(exited)} exited`;
    return { id: index, entered, exited, label };
  });
  return html`<figure class="chart" aria-busy=${busy}>
    <${BarsCaption} title=${size > 1 ? `Entered and exited every ${size} ${step}s` : title} />
    <${BarsDrawn} title=${inWords(title, series, short)} role="img" changes=${changes}
        bar=${(/** @type {any} */ { id, label }, /** @type {any} */ shape) => html`<g key=${id}>
          <title>${label}</title>
          ${shape}
        </g>`}>
      <div class="times" aria-hidden="true">
        ${timeLabels(times[0] ?? 0, times.at(-1) ?? 0).map((label, index) => html`<span key=${index}>${label}</span>`)}
      </div>
    <//>
    <${Behind} ...${{ title, times, series, format: short }} />
  </figure>`;
}

/** @param {Series | undefined} series @param {number} from @param {number} size */
function sumOf(series, from, size) {
  const values = series?.values.slice(from, from + size) ?? [];
  return values.reduce((/** @type {number} */ sum, value) => sum + (value ?? 0), 0);
}

/** @param {{ title: string, changed?: boolean }} props */
function BarsCaption({ title, changed = false }) {
  return html`<figcaption>
    <span>${title}</span>
    <span class="legend">
      <span class="tone-2">entered${changed ? ' or changed' : ''}</span>
      <span class="tone-4">exited</span>
    </span>
  </figcaption>`;
}

/**
 * @param {{ title: string, role: string, changes: readonly Change[], bar: (change: any, shape: any) => any, children?: any }} props
 *   - `children`: shown below
 */
function BarsDrawn({ title, role, changes, bar, children }) {
  const highest = Math.max(1, ...changes.map(({ entered }) => entered));
  const lowest = Math.max(0, ...changes.map(({ exited }) => exited));
  const [width, height] = [Math.max(changes.length, 20) * 12, 150];
  // The newest is on the right, as in all charts.
  const from = width - changes.length * 12;
  const zero = 4 + (height - 8) * (highest / (highest + lowest));
  /** @param {number} count */
  const tall = (count) => (count === 0 ? 0 : Math.max(2, ((height - 8) * count) / (highest + lowest)));
  return html`<div class="plot">
    <div class="scale" aria-hidden="true">
      <span>+${short(highest)}</span>
      ${lowest > 0 && html`<span>−${short(lowest)}</span>`}
    </div>
    <svg class="bars" viewBox=${`0 0 ${width} ${height}`} preserveAspectRatio="none" role=${role} aria-label=${title}>
      <line class="axis" x1="0" x2=${width} y1=${zero} y2=${zero} vector-effect="non-scaling-stroke" />
      ${changes.map((change, index) =>
        bar(
          change,
          html`<rect class="hit" x=${from + index * 12} y="0" width="12" height=${height} />
            <rect class="in" x=${from + index * 12 + 2} y=${zero - tall(change.entered)} width="8"
                height=${tall(change.entered)} />
            <rect class="out" x=${from + index * 12 + 2} y=${zero} width="8" height=${tall(change.exited)} />`,
        ),
      )}
    </svg>
    ${children}
  </div>`;
}
