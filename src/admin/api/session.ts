import * as z from 'zod';
import { RIGHTS } from '../../config/config.ts';
import { documented, jsonSchema } from '../../http/schemas.ts';
import type { Caller } from '../guard.ts';
import type { BrowserSessions } from '../session.ts';
import { type ApiRoutes, failures } from './route.ts';
import { DONE, done } from './shapes.ts';

const signIn = z.object({
  token: z.string().min(1).max(10_000).describe('An admin token, or the code of a sign-in link.'),
});
const standing = z.object({
  name: z.string().describe("The token's name."),
  may: z.array(z.enum(RIGHTS)),
  service: z.string(),
  version: z.string(),
});

export interface SessionParts {
  readonly session: BrowserSessions;
  readonly serviceName: () => string;
  readonly version: string;
}

/** Sign-in of browsers. The cookie stands for the token, and no script can read it. */
export function sessionRoutes({ app, gate }: ApiRoutes, { session, serviceName, version }: SessionParts): void {
  const documentation = (summary: string) => ({ summary, tags: ['Session'] });
  const answered = { 200: { description: 'Done.', ...jsonSchema(standing) }, ...failures(null) };
  const answer = ({ name, may }: Caller) => ({ name, may, service: serviceName(), version });
  app.get(
    '/session',
    documented(() => ({ ...documentation('Who this is'), response: answered })),
    async (request, reply) => {
      reply.header('cache-control', 'no-store');
      return answer(await gate.identify(request));
    },
  );
  app.post(
    '/session',
    documented(() => ({
      ...documentation('Sign a browser in with a token, or with the code of a sign-in link'),
      body: jsonSchema(signIn),
      response: answered,
    })),
    async (request, reply) => {
      const given = signIn.safeParse(request.body);
      const token = await gate.signIn(given.success ? given.data.token : '', request);
      reply.header('set-cookie', session.start(token, request));
      return answer(token);
    },
  );
  const signingOut = documented(() => ({
    ...documentation('Sign a browser out'),
    response: { 200: { description: 'Done.', ...jsonSchema(done) }, ...failures(null) },
  }));
  app.delete(
    '/session',
    { ...signingOut, onRequest: async (request) => void (await gate.identify(request)) },
    async (request, reply) => {
      reply.header('set-cookie', await gate.signOut(request));
      return DONE;
    },
  );
}
