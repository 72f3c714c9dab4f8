import { compareText } from '../definition/operators.ts';
import { isPlaceholder } from '../kernel/placeholders.ts';
import { UNSET_CLOCK } from '../kernel/timestamp.ts';
import type { IdentityLinks } from './deleted-ids.ts';
import type { DeletionRecords, SaidIds } from './deletions.ts';

interface SaidLink {
  readonly kind: 'alias' | 'anonymous';
  readonly id: string;
  readonly user: string;
  readonly by: SaidIds;
}

/** The links that kept messages state, for sources that are in no event log. */
export function messageLinks(
  store: Pick<DeletionRecords, 'saidIds'>,
  isMeant: (source: string) => boolean,
): IdentityLinks {
  async function saidOf(ids: readonly string[] | null): Promise<readonly SaidIds[]> {
    const said: SaidIds[] = [];
    let cursor: string | null = null;
    do {
      const from: string | null = cursor;
      const page = await store.saidIds(ids, from);
      said.push(...page.said.filter(({ source }) => isMeant(source)));
      cursor = page.cursor;
    } while (cursor !== null);
    return said;
  }
  return {
    async aliases() {
      const links = linksIn(await saidOf(null)).filter(({ kind, id, user }) => kind === 'alias' && id !== user);
      const latest = new Map(links.map((link) => [link.id, link]));
      return [...latest.values()].toSorted(inOrder).map(({ id, user }) => [id, user]);
    },
    async owners(ids) {
      const asked = new Set(ids);
      const near = linksIn(await saidOf(ids)).filter(({ id, user }) => asked.has(id) || asked.has(user));
      const all = linksIn(await saidOf([...new Set(near.map(({ id }) => id))]));
      const first = new Map(all.toReversed().map((link) => [link.id, link.user]));
      return [...first].filter(([id, user]) => asked.has(id) || asked.has(user));
    },
    async uses(ids) {
      const said = await saidOf(ids);
      const named = (field: 'userId' | 'anonymousId') => {
        const all = new Set(said.map((each) => each[field]));
        return new Set(ids.filter((id) => all.has(id)));
      };
      return { users: named('userId'), anonymous: named('anonymousId') };
    },
  };
}

/** Earliest first. */
function linksIn(said: readonly SaidIds[]): readonly SaidLink[] {
  const links = said.flatMap((by): SaidLink[] => {
    const kind = by.type === 'alias' ? 'alias' : 'anonymous';
    const id = by.type === 'alias' ? by.previousId : by.type === 'identify' ? by.anonymousId : null;
    if (id === null || by.userId === null || isPlaceholder(id) || isPlaceholder(by.userId)) return [];
    return [{ kind, id, user: by.userId, by }];
  });
  return links.toSorted(inOrder);
}

const likelyAt = ({ timestamp, receivedAt }: SaidIds) =>
  timestamp < UNSET_CLOCK ? receivedAt : Math.min(timestamp, receivedAt);

function inOrder({ by: one }: SaidLink, { by: other }: SaidLink): number {
  return (
    likelyAt(one) - likelyAt(other) || one.receivedAt - other.receivedAt || compareText(one.messageId, other.messageId)
  );
}
