import { count, duration, few, number } from './format.js';
import { html } from './html.js';
import { Figures, Panel } from './ui.js';

/** @typedef {import('./api.js').Answer<'/audiences/{key}/plan'>} Plan */

/** The changes that a sync would send. @param {{ plan: Plan, state: string, onClose: () => void }} props */
export function Plan({ plan, state, onClose }) {
  const { before, members, entered, exited, changed, kind, messages, destinations, newcomers, withdrawn, away } = plan;
  const notes = [
    ...(plan.paused ? [`It is paused by ${plan.paused.by}: nothing syncs it before it is resumed.`] : []),
    ...(!plan.paused && state === 'paused' ? ['It is paused in the configuration: nothing syncs it.'] : []),
    ...(plan.held ? [`A guard would hold it: ${plan.held}`] : []),
    ...(newcomers.length > 0 ? [`Gets the whole membership: ${few(newcomers)}.`] : []),
    ...(withdrawn.length > 0 ? [`No longer wants it, and gets its end for each member: ${few(withdrawn)}.`] : []),
    ...(away.length > 0 ? [`Out of reach now, and gets it once it is back: ${few(away)}.`] : []),
    ...(plan.invalid > 0 ? [`${count(plan.invalid, 'row')} without a usable user_id are left out.`] : []),
    ...(plan.duplicates > 0 ? [`${count(plan.duplicates, 'row')} beyond the first of their user are left out.`] : []),
    ...(plan.renamedFrom
      ? [`${plan.renamedFrom} ends: destinations hear so of its ${count(plan.retired, 'member')}.`]
      : []),
    ...plan.unfinished.map(({ run, state }) => `The run ${run} (${state}) comes first.`),
  ];
  return html`<${Panel} label="Plan" tone=${plan.held ? 'warn' : undefined} onClose=${onClose}
      title=${`A run now would send ${count(messages, 'message')}${destinations.length > 0 ? ` to ${few(destinations)}` : ''}`}>
    <${Figures} items=${[
      { title: 'Members', value: number(members), note: `now ${number(before)}` },
      { title: 'Would enter', value: number(entered) },
      { title: 'Would leave', value: number(exited), tone: plan.held ? 'warn' : undefined },
      ...(kind === 'trait' || changed > 0 ? [{ title: 'Would change', value: number(changed) }] : []),
      {
        title: 'Requests',
        value: number(plan.calls),
        note: plan.estimatedMs === null ? '' : `about ${duration(plan.estimatedMs)}`,
      },
    ]} />
    ${notes.length > 0 && html`<ul>${notes.map((note) => html`<li key=${note}>${note}</li>`)}</ul>`}
    ${plan.sample.map(
      (body, index) => html`<details key=${index} open=${index === 0}>
        <summary>Sample ${index + 1}</summary>
        <pre>${JSON.stringify(body, null, 2)}</pre>
      </details>`,
    )}
    <p class="soft">Nothing was written or sent.</p>
  <//>`;
}
