import * as z from 'zod';
import { RIGHTS } from '../../config/config.ts';
import { documented, jsonSchema } from '../../http/schemas.ts';
import { RollcallError } from '../../kernel/errors.ts';
import type { Gate } from '../guard.ts';
import type { BrowserSessions } from '../session.ts';
import { type ApiRoutes, failures } from './route.ts';

const signIn = z.object({ token: z.string().min(1).max(10_000) });
const standing = z.object({
  signedIn: z.boolean(),
  needsToken: z.boolean().describe('False where this machine is served without one.'),
  name: z.string().nullable().describe("The token's name."),
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
  const documentation = (summary: string) => ({
    summary,
    tags: ['Session'],
    response: { 200: { description: 'Done.', ...jsonSchema(standing) }, ...failures(null) },
  });
  const answer = (caller: { readonly name: string; readonly may: readonly string[] } | null) => ({
    signedIn: caller !== null,
    needsToken: gate.needsToken,
    name: caller?.name ?? null,
    may: caller?.may ?? [],
    service: serviceName(),
    version,
  });
  const docs = (summary: string) => documented(() => documentation(summary));
  app.get('/session', docs('Who this is'), async (request, reply) => {
    reply.header('cache-control', 'no-store');
    return answer(identified(gate, request));
  });
  app.post(
    '/session',
    documented(() => ({ ...documentation('Sign a browser in with a token'), body: jsonSchema(signIn) })),
    async (request, reply) => {
      const given = signIn.safeParse(request.body);
      if (!given.success) throw new RollcallError('invalid_request', 'token: must be text');
      if (!gate.needsToken) return answer(gate.identify(request));
      const token = gate.bearer(given.data.token, request);
      reply.header('set-cookie', session.start(token, request));
      return answer(token);
    },
  );
  app.delete('/session', docs('Sign a browser out'), async (request, reply) => {
    reply.header('set-cookie', session.end(request));
    return answer(null);
  });
}

/** Null if the caller has to sign in. */
function identified(gate: Gate, request: Parameters<Gate['identify']>[0]) {
  try {
    return gate.identify(request);
  } catch (error) {
    if (error instanceof RollcallError && error.code === 'unauthorized') return null;
    throw error;
  }
}
