import Fastify, { type FastifyInstance } from 'fastify';
// `rollcall demo` has no packages but its own: your app would import '@rollcall/receivers'.
import { type ComputedBody, receiver } from '../../receivers/index.ts';

export interface ShopApp {
  readonly fastify: FastifyInstance;
  /** Who is in which audience, built from verified webhooks alone. */
  readonly members: ReadonlyMap<string, ReadonlySet<string>>;
  readonly lifetimeValue: ReadonlyMap<string, number>;
}

/** The app's knowledge from one verified webhook. */
export type Told = (what: string, userId: string) => void;

/** The customer's side: a Fastify app with the receiver kit. */
export function createShopApp(secret: string, audiences: readonly string[], told: Told): ShopApp {
  const members = new Map(audiences.map((key) => [key, new Set<string>()]));
  const lifetimeValue = new Map<string, number>();

  const audience = Object.fromEntries(
    [...members].map(([key, users]) => [
      key,
      {
        entered: ({ userId, reason, columns }: ComputedBody) => {
          users.add(userId);
          told(`entered ${key} (${shown(reason, columns)})`, userId);
        },
        exited: ({ userId, reason, columns }: ComputedBody) => {
          users.delete(userId);
          told(`left ${key} (${shown(reason, columns)})`, userId);
        },
      },
    ]),
  );

  const fastify = Fastify();
  fastify.register(receiver, {
    path: '/hooks',
    secret,
    on: {
      audience,
      identify({ userId = '', traits }) {
        lifetimeValue.set(userId, Number(traits['lifetime_value']));
        told('new lifetime_value', userId);
      },
      track: ({ event, userId = '' }) => told(event, userId),
      delete: ({ userId }) => told('must be deleted', userId),
    },
  });
  return { fastify, members, lifetimeValue };
}

/** The reason of a change, with the names of columns that go along. */
const shown = (reason: unknown, columns: object) => [reason, ...Object.keys(columns)].join(', with ');
