import { createHash, timingSafeEqual } from 'node:crypto';
import type { FastifyError, FastifyPluginAsync, FastifyRequest } from 'fastify';
import escapeHtml from 'lodash/escape.js';
import type { Clock } from '../clock.ts';
import type { Config } from '../config/config.ts';
import type { RollcallError } from '../errors.ts';
import { answerError } from '../http-errors.ts';
import type { AudienceRecord, DeadLetter, Run, Store } from '../store/port.ts';
import { VERSION } from '../version.ts';
import { type EndpointStatus, endpointStatuses } from './endpoints.ts';
import type { Guard } from './guard.ts';

interface DashboardOptions {
  readonly guard: Guard;
  readonly config: () => Config;
  readonly store: Pick<Store, 'time' | 'backlog' | 'endpoints' | 'audiences' | 'runs' | 'deadLetters'>;
  readonly clock: Pick<Clock, 'now'>;
}

/** Rows of a table at most, and seconds until the page comes anew. */
const ROWS = 20;
const REFRESH = 5;

const STYLE = `
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid color-mix(in srgb, currentColor 15%, transparent); }
td.number { font-variant-numeric: tabular-nums; }
.open, .done { color: #1a7f37; } .dead, .failed { color: #cf222e; } .paused, .refusing, .held, .orphaned { color: #9a6700; }
code { font-size: .9em; } p.empty { opacity: .7; }
`;
const STYLE_HASH = createHash('sha256').update(STYLE).digest('base64');

/** One page that shows how things stand: endpoints, audiences, runs, dead letters. */
export const dashboard: FastifyPluginAsync<DashboardOptions> = async (app, { guard, config, store, clock }) => {
  app.setErrorHandler((error: FastifyError | RollcallError, request, reply) => {
    if (error.code !== 'unauthorized') return answerError(error, request, reply);
    // A browser asks its user for a password when it is told so.
    reply.code(401).header('www-authenticate', 'Basic realm="rollcall"').type('text/plain');
    reply.send('Any user name; the password is the admin token.');
  });
  const route = {
    schema: { hide: true },
    onRequest: async (request: FastifyRequest) => {
      const readers = config().admin.tokens.filter(({ may }) => may.includes('read'));
      if (!readers.some(({ token }) => bearsPassword(request, token))) await guard(request);
    },
  };
  app.get('/', route, async (_request, reply) => {
    const { destinations, audiences, traits, serviceName } = config();
    const [endpoints, records, runs, letters] = await Promise.all([
      endpointStatuses(store, destinations),
      store.audiences(),
      store.runs({ limit: ROWS }),
      store.deadLetters({ limit: ROWS }),
    ]);
    reply.type('text/html; charset=utf-8');
    reply.header('content-security-policy', `default-src 'none'; style-src 'sha256-${STYLE_HASH}'`);
    reply.header('cache-control', 'no-store');
    const keys = new Map([...audiences, ...traits].map(({ key, schedule }) => [key, schedule]));
    return page(serviceName, [
      section('Endpoints', endpointTable(endpoints)),
      section('Audiences and traits', audienceTable(records, keys, runs, clock.now())),
      section('Last runs', runTable(runs)),
      section('Dead letters', letterTable(letters)),
    ]);
  });
};

/** The token as the password of any user. Only pages to look at take it: a browser sends it along unasked. */
function bearsPassword(request: FastifyRequest, token: string): boolean {
  const [scheme, credentials = ''] = request.headers.authorization?.split(' ') ?? [];
  if (scheme?.toLowerCase() !== 'basic') return false;
  const password = Buffer.from(credentials, 'base64')
    .toString()
    .replace(/^[^:]*:/, '');
  const digest = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(password), digest(token));
}

type Cell = string | number | { readonly state: string };

function endpointTable(endpoints: readonly EndpointStatus[]): string {
  return table(
    ['Destination', 'Endpoint', 'State', 'Since', 'Pending', 'Dead letters'],
    endpoints.map(({ destination, url, state, since, pending, dead }) => [
      destination,
      url,
      { state },
      since ?? '',
      pending,
      dead,
    ]),
    'No destination is configured.',
  );
}

function audienceTable(
  records: readonly AudienceRecord[],
  keys: ReadonlyMap<string, string | null>,
  runs: readonly Run[],
  now: number,
): string {
  const rows = records.map(({ key, kind, version, lastRunAt }): Cell[] => {
    const last = runs.find((run) => run.key === key);
    const state = keys.has(key) ? (last?.state ?? '') : 'orphaned';
    return [key, kind, keys.get(key) ?? '', { state }, last?.members ?? '', version, ago(lastRunAt, now)];
  });
  const header = ['Key', 'Kind', 'Schedule', 'State', 'Members', 'Version', 'Last run'];
  return table(header, rows, 'Nothing has been synced yet.');
}

function runTable(runs: readonly Run[]): string {
  return table(
    ['Run', 'Key', 'State', 'Members', 'Entered', 'Exited', 'Sent', 'Started', 'Reason'],
    runs.map((run) => [
      run.id,
      run.key,
      { state: run.state },
      run.members,
      run.entered,
      run.exited,
      run.sent,
      new Date(run.startedAt).toISOString(),
      run.reason ?? '',
    ]),
    'No run yet.',
  );
}

function letterTable(letters: readonly DeadLetter[]): string {
  return table(
    ['Id', 'Destination', 'Type', 'User', 'Reason', 'Status', 'Last try'],
    letters.map(({ id, destination, type, userId, reason, status, lastAt }) => [
      id,
      destination,
      type,
      userId ?? '',
      reason,
      status ?? '',
      new Date(lastAt).toISOString(),
    ]),
    'None.',
  );
}

function ago(time: number | null, now: number): string {
  if (time === null) return '';
  const seconds = Math.round((now - time) / 1_000);
  if (seconds < 120) return `${seconds} s ago`;
  return seconds < 7_200 ? `${Math.round(seconds / 60)} min ago` : `${Math.round(seconds / 3_600)} h ago`;
}

function table(header: readonly string[], rows: readonly (readonly Cell[])[], empty: string): string {
  if (rows.length === 0) return `<p class="empty">${escapeHtml(empty)}</p>`;
  const head = header.map((name) => `<th>${escapeHtml(name)}</th>`).join('');
  const body = rows.map((row) => `<tr>${row.map(cell).join('')}</tr>`).join('\n');
  return `<table><thead><tr>${head}</tr></thead><tbody>\n${body}\n</tbody></table>`;
}

function cell(value: Cell): string {
  if (typeof value === 'number') return `<td class="number">${value}</td>`;
  if (typeof value === 'string') return `<td>${escapeHtml(value)}</td>`;
  return `<td class="${escapeHtml(value.state)}">${escapeHtml(value.state)}</td>`;
}

function section(title: string, content: string): string {
  return `<section><h2>${escapeHtml(title)}</h2>${content}</section>`;
}

function page(serviceName: string, sections: readonly string[]): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="refresh" content="${REFRESH}">
<title>${escapeHtml(serviceName)}</title>
<style>${STYLE}</style>
</head>
<body>
<h1>${escapeHtml(serviceName)} <small>${VERSION}</small></h1>
${sections.join('\n')}
</body>
</html>
`;
}
