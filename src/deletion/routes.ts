import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify';
import * as z from 'zod';
import { answerError } from '../http/errors.ts';
import { checkedPart, documented, errorAnswer, jsonSchema } from '../http/schemas.ts';
import { RollcallError } from '../kernel/errors.ts';
import {
  type Confirmed,
  confirmedNotices,
  REGULATION_TYPES,
  type Regulation,
  type RegulationType,
} from '../store/port.ts';
import { subjectIds } from './subjects.ts';

export interface RegulationRequest {
  readonly type: RegulationType;
  /** Null for all sources. */
  readonly sources: readonly string[] | null;
  readonly userIds: readonly string[];
  /** The caller's name in the audit log. */
  readonly by?: string;
}

export interface RegulationsOptions {
  /** Throws a RollcallError for requests that may not pass. */
  readonly guard: (request: FastifyRequest, reply: FastifyReply) => Promise<void>;
  readonly hasSource: (id: string) => boolean;
  /** Resolves to the request's id once it is durable. The work continues in the background. */
  readonly fileRegulation: (request: RegulationRequest, by: FastifyRequest) => Promise<string>;
  readonly findRegulation: (id: string) => Promise<Regulation | null>;
  readonly confirmed?: (id: string) => Promise<readonly Confirmed[]>;
}

/** Room for 5,000 ids of some 800 bytes. */
const MAX_BYTES = 4 * 1024 * 1024;

const requestBody = z.object({
  regulationType: z.enum(REGULATION_TYPES),
  subjectType: z.literal('USER_ID'),
  subjectIds,
});

const filed = z.object({ data: z.object({ regulateId: z.string() }) });
const found = z.object({
  data: z.object({
    regulation: z.object({
      id: z.string(),
      regulationType: requestBody.shape.regulationType,
      overallStatus: z.enum(['INITIALIZED', 'RUNNING', 'FINISHED', 'FAILED', 'PARTIAL_SUCCESS']),
      sources: z.array(z.string()).nullable().describe('Null for every source.'),
      subjects: z.int().describe('Number of user ids.'),
      createdAt: z.iso.datetime(),
      finishedAt: z.iso.datetime().nullable(),
      by: z.string().optional().describe('Who filed it: the name of a token, `local`, or `cli:USER`.'),
      notices: z
        .array(
          z.object({
            destination: z.string(),
            notices: z.int().describe('How many it gets: one for each user and source.'),
            confirmed: z.int().describe('How many of them it took.'),
            confirmedAt: z.iso.datetime().nullable().describe('When it took the last one.'),
          }),
        )
        .optional()
        .describe('Who was told, and who confirmed; absent before anybody was.'),
    }),
  }),
});

/** Deletion requests: `POST /regulations`, `POST /regulations/sources/{id}`, `GET /regulations/{id}`. */
export const regulations: FastifyPluginAsync<RegulationsOptions> = async (app, options) => {
  app.setErrorHandler(answerError);
  app.removeContentTypeParser('text/plain');
  // The schemas serve the documentation only. Bodies are checked with zod.
  app.setValidatorCompiler(() => () => true);
  app.setSerializerCompiler(() => JSON.stringify);
  app.addHook('onRequest', options.guard);

  const file = async (request: FastifyRequest, sources: readonly string[] | null) => {
    const { regulationType, subjectIds: given } = checkedPart(requestBody, request.body, 'body');
    const userIds = [...new Set(given.map((id) => id.toWellFormed()))];
    const filed = { type: regulationType, sources, userIds };
    return { data: { regulateId: await options.fileRegulation(filed, request) } };
  };
  const filing = (summary: string) =>
    documented(() => ({ ...documentation(summary, filed), body: jsonSchema(requestBody) }));
  app.post('/regulations', { ...filing('File a deletion request'), bodyLimit: MAX_BYTES }, (request) =>
    file(request, null),
  );
  app.post<{ Params: { id: string } }>(
    '/regulations/sources/:id',
    { ...filing('File a deletion request for one source'), bodyLimit: MAX_BYTES },
    async (request) => {
      const { id } = request.params;
      if (!options.hasSource(id)) throw new RollcallError('not_found', `There is no source ${id}.`);
      return file(request, [id]);
    },
  );
  app.get<{ Params: { id: string } }>(
    '/regulations/:id',
    documented(() => documentation('What became of a deletion request', found)),
    async ({ params }) => {
      const regulation = await options.findRegulation(params.id);
      if (regulation === null) throw new RollcallError('not_found', `There is no regulation ${params.id}.`);
      const confirmed = (await options.confirmed?.(regulation.id)) ?? [];
      return { data: { regulation: shown(regulation, confirmed) } };
    },
  );
};

/** Omits the user ids: they have to be forgotten. */
function shown(regulation: Regulation, confirmed: readonly Confirmed[]) {
  const { id, type, status, sources, subjects, createdAt, finishedAt, by, notices } = regulation;
  return {
    id,
    regulationType: type,
    overallStatus: status,
    sources,
    subjects,
    createdAt: new Date(createdAt).toISOString(),
    finishedAt: finishedAt === null ? null : new Date(finishedAt).toISOString(),
    ...(by === undefined ? {} : { by }),
    ...(notices ? { notices: confirmedNotices(id, notices, confirmed) } : {}),
  };
}

function documentation(summary: string, answer: z.ZodType) {
  return {
    summary,
    tags: ['Deletion requests'],
    security: [{ adminToken: [] }],
    response: {
      200: { description: 'Done.', ...jsonSchema(answer) },
      400: errorAnswer('Not a valid request.'),
      401: errorAnswer('The admin token is missing or wrong.'),
      403: errorAnswer('The token may not `delete`.'),
      404: errorAnswer('No such source or regulation.'),
      503: errorAnswer('There is no admin token, or the store does not answer.'),
    },
  };
}
