import { type Destination, shownUrl } from '../destination.ts';
import { hint } from './options.ts';
import { note, type Terminal } from './output/terminal.ts';

/** Outcomes for which Rollcall itself refused to send, and their reasons. */
const UNSENT = [
  ['address_refused', 'resolves to an address that network.allow does not permit'],
  ['tls_untrusted', 'has a certificate that is not trusted'],
] as const;

interface Shown {
  readonly destination: string;
  readonly endpoint: string;
  readonly why: string;
}

export function noteUnsent(
  terminal: Terminal,
  options: { readonly config: string },
  destinations: readonly Destination[],
  shown: readonly Shown[],
): void {
  for (const [wanted, fault] of UNSENT) {
    const found = shown.filter(({ why }) => why === wanted);
    const isShown = (name: string, id: string) =>
      found.some(({ destination, endpoint }) => destination === name && endpoint === id);
    const urls = destinations.flatMap(({ name, endpoints }) =>
      endpoints.filter(({ id }) => isShown(name, id)).map(shownUrl),
    );
    if (urls.length === 0) continue;
    const subject =
      new Set(urls).size === 1 ? `${urls[0]} ${fault}` : `One of ${[...new Set(urls)].join(', ')} ${fault}`;
    note(terminal, `${wanted}: ${subject}. ${hint(options, 'doctor')} says which, and what to do.`);
  }
}
