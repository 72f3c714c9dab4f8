import { html } from '../html.js';
import { useData } from '../live.js';
import { addressOf, navigate, useAddress } from '../router.js';
import { Empty, Head, Loaded, Problem, Section } from '../ui.js';
import { audienceAddress, memberAddress } from './audiences.js';
import { AsOf, Change } from './story.js';

/** @typedef {import('../api.js').Answer<'/people/{user}'>} Person */

/** @param {string} user */
export const personAddress = (user) => addressOf('/people/{user}', { user });

/** One person in all audiences and traits; without an id, a search. @param {{ user?: string }} props */
export default function Person({ user }) {
  /** @param {any} event */
  const search = (event) => {
    event.preventDefault();
    const id = new FormData(event.target).get('user');
    if (id) navigate(personAddress(String(id)));
  };
  return html`<${Head} title=${user ?? 'People'} ...${user ? { up: ['/people', 'People'] } : {}}
        about=${user ? null : 'One person in all audiences and traits, and what each destination knows.'}>
      ${
        user &&
        html`<a class="button" href=${addressOf('/messages', { userId: user })}>
          Messages of <bdi>${user}</bdi>
        </a>`
      }
    <//>
    <form class="filters" role="search" onSubmit=${search}>
      <label>User id<input type="search" name="user" required /></label>
      <button type="submit">Look up</button>
    </form>
    ${
      user
        ? html`<${Known} user=${user} key=${user} />`
        : html`<${Empty} title="Look somebody up.">
          <p>Ids are matched letter by letter. <code>rollcall person USER_ID</code> does it, too.</p>
        <//>`
    }`;
}

/** @param {{ user: string }} props */
function Known({ user }) {
  const { at } = useAddress().query;
  const live = useData(addressOf('/people/{user}', { user, at }), ['runs', 'messages', 'deletions']);
  return html`<${AsOf} at=${at} />
    <${Loaded} live=${live} rows=${6}>${(/** @type {Person} */ { memberships, failures, deletion }) => {
      const changed = memberships.filter(({ change }) => change);
      const others = memberships.filter(({ change }) => !change);
      return html`${failures.map(
        ({ engine, message }) => html`<${Problem} key=${engine}
            error=${new Error(`${engine} does not answer, so its audiences are missing: ${message}`)} />`,
      )}
        ${
          deletion.suppressed.length > 0 &&
          html`<p class="warn-text">
            Messages of this person are not taken from ${deletion.suppressed.join(', ')}.
          </p>`
        }
        ${deletion.requests.map(
          ({ id, status }) => html`<p key=${id} class="warn-text">
            The deletion <code>${id}</code> is ${status.toLowerCase()}.
          </p>`,
        )}
        <${Section} title="Audiences and traits">${
          changed.length === 0
            ? html`<${Empty} title=${`${user} was never in an audience.`}>
              <p>As far as is known: changes are kept as long as runs are. An id is matched letter by letter.</p>
            <//>`
            : changed.map(
                (membership) => html`<${Membership} key=${membership.key} user=${user} membership=${membership} />`,
              )
        }<//>
        ${
          others.length > 0 &&
          html`<p class="soft">
            Not in, as far as is known: ${others.map(({ key }) => html`<a key=${key} href=${audienceAddress(key)}><bdi>${key}</bdi></a> `)}
          </p>`
        }`;
    }}<//>`;
}

/** @param {{ user: string, membership: Person['memberships'][number] }} props */
function Membership({ user, membership: { key, name, member, value, change } }) {
  return html`<article>
    <h3><a href=${memberAddress(key, user)}><bdi>${name ?? key}</bdi></a>
      <span class=${`state ${member ? 'good' : 'quiet'}`}>${member ? 'member' : 'not a member'}</span>
      ${value === null ? null : html`<code>${JSON.stringify(value)}</code>`}</h3>
    <ol class="story"><${Change} name=${key} user=${user} change=${{ ...change, value: null }} /></ol>
  </article>`;
}
