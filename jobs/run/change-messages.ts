import type { Destination, MembershipForm, MembershipMode } from '../../src/destination.ts';
import type { Message } from '../../src/message.ts';
import { conflictKey } from '../audience-or-trait.ts';
import { type BodyBuilder, type BodySpec, bodyBuilder, type MembershipChange } from './identify-body.ts';

/** A message about a change, for the destinations that want it in this form, with these columns. */
export interface ChangeMessage extends Message {
  readonly type: MembershipForm;
  readonly to: readonly string[];
}

/** Makes the messages of one change. A pair has the identify first. */
type ChangeMessages = (change: MembershipChange) => readonly ChangeMessage[];

interface ChangeMessagesSpec extends BodySpec {
  readonly destinations: readonly Destination[];
  /** Names of those that get the changes. */
  readonly scope: readonly string[];
  /** Forms of which messages of this audience are still undelivered. */
  readonly pending: ReadonlySet<MembershipForm>;
  /** Makes message ids; `edition` tells the messages of a change apart. */
  idOf(edition: string): (user: string) => string;
}

/** The form in which a group of destinations gets each change. */
interface Edition extends Pick<ChangeMessage, 'to' | 'type'> {
  readonly body: BodyBuilder;
  readonly idOf: (user: string) => string;
  /** The other form, if these destinations may still have undelivered messages in it. */
  readonly replaced: MembershipForm | null;
}

const FORMS: Readonly<Record<MembershipMode, readonly MembershipForm[]>> = {
  identify: ['identify'],
  track: ['track'],
  both: ['identify', 'track'],
};

export const formsOf = ({ membership = 'identify' }: Pick<Destination, 'membership'>): readonly MembershipForm[] =>
  FORMS[membership];

export function changeMessages(spec: ChangeMessagesSpec): ChangeMessages {
  const { key, destinations, scope, pending, idOf } = spec;
  const theirs = destinations.filter(({ name }) => scope.includes(name));
  const groups = Map.groupBy(theirs, ({ membership, columns }) => JSON.stringify([membership, columns]));
  const editions = [...groups].flatMap(([edition, group]): Edition[] => {
    const [{ columns: choice, ...first }] = group as [Destination];
    const forms = formsOf(first);
    const to = group.map(({ name }) => name);
    return forms.map((type) => ({
      ...{ type, to },
      body: bodyBuilder(spec, type, choice),
      idOf: idOf(edition === '[null,null]' ? '' : `${type} ${edition}`),
      replaced: [...pending].find((form) => !forms.includes(form)) ?? null,
    }));
  });
  return (change) =>
    editions.map(({ type, to, body, idOf, replaced }) => {
      const { userId } = change;
      const messageId = idOf(userId);
      return {
        ...{ type, messageId, userId, to },
        integrations: null,
        body: body(messageId, change),
        conflict: conflictKey(key, userId, type),
        ...(replaced !== null && { replaces: conflictKey(key, userId, replaced) }),
      };
    });
}

/** Makes bodies in the form of a message that is sent again, with the columns of its destination. */
export function destinationBodies(
  spec: BodySpec,
  destinations: readonly Destination[],
): (destination: string, form: MembershipForm) => BodyBuilder {
  const made = new Map<string, BodyBuilder>();
  return (destination, form) => {
    const known = made.get(`${form} ${destination}`);
    if (known !== undefined) return known;
    const choice = destinations.find(({ name }) => name === destination)?.columns;
    const body = bodyBuilder(spec, form, choice);
    made.set(`${form} ${destination}`, body);
    return body;
  };
}
