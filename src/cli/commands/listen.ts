import type { AddressInfo } from 'node:net';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { systemClock } from '../../kernel/clock.ts';
import { RollcallError } from '../../kernel/errors.ts';
import type { Captured } from '../capture.ts';
import type { CliContext } from '../context.ts';
import { collect, jsonOption, milliseconds, orVariable, wholeNumber } from '../options.ts';
import { describeRequest } from '../output/describe-request.ts';
import { aborted, hasColours, note, print, printJson } from '../output/terminal.ts';

interface ListenOptions {
  readonly port: number;
  readonly host: string;
  readonly secret: readonly string[];
  readonly fail?: FailureShare;
  readonly slow: number;
  readonly maxBody: number;
  readonly forward?: URL;
  readonly json?: boolean;
}

/** Answers this share of the requests with this status, on purpose. */
interface FailureShare {
  readonly status: number;
  readonly share: number;
}

const EXAMPLES = `
Examples:
  $ rollcall listen --port 9000 --secret s3cret      verify and print what arrives
  $ rollcall listen --port 0 --json | jq .body       any free port, one JSON object per request
  $ rollcall listen --port 9000 --fail 503:0.3       answer 503 to 30 % of the requests
  $ rollcall listen --port 9000 --slow 6s            answer later than Rollcall waits (5 s)
  $ rollcall listen --forward http://localhost:3000/hooks   pass requests on to an app, and print its answers

If the app answers 401 to a signature that is right by --secret, the request is posted to it again, signed as usual
mistakes would sign it. If it accepts one of these, the mistake is printed.

Other users of the machine can see a secret in the arguments. ROLLCALL_SECRET keeps it out of them.

With --json a request is {"at","method","path","headers","body","signature","status"}, with --forward also "answer":
{"status","type","body","advice"}. signature is one of
verified, unsigned, signature_missing, signature_malformed, signature_mismatch, webhook_headers_missing,
webhook_headers_malformed, webhook_signature_mismatch.`;

export function addListen(program: Command, context: CliContext): void {
  program
    .command('listen')
    .description('receive webhooks for testing: verifies, prints, and can answer badly on purpose')
    .option('-p, --port <n>', 'port to listen on; 0 takes a free one', wholeNumber(0, 65535), 9000)
    .option('--host <address>', 'address to listen on', '127.0.0.1')
    .addOption(secretOption())
    .option('--fail <status[:share]>', 'answer with this status, to this share (0 to 1) of the requests', failure)
    .addOption(forwardOption())
    .option('--slow <duration>', 'wait before each answer', milliseconds, 0)
    .option('--max-body <bytes>', 'refuse larger bodies with 413', wholeNumber(1), 1024 * 1024)
    .addOption(jsonOption())
    .addHelpText('after', EXAMPLES)
    .action((options: ListenOptions) => listen(options, context));
}

function secretOption(): Option {
  const description = 'verify X-Signature and webhook-signature; may be given several times while rotating';
  const option = new Option('-s, --secret <secret>', description).argParser(collect).default([], 'none');
  return orVariable(option, 'ROLLCALL_SECRET');
}

function forwardOption(): Option {
  const description = "pass requests on to this URL, and answer as it does; without a path, to each request's own";
  return new Option('--forward <url>', description).argParser(webUrl).conflicts('fail');
}

async function listen(options: ListenOptions, { terminal }: CliContext): Promise<void> {
  const { port, host, fail, slow, secret, maxBody, forward } = options;
  const colour = hasColours(terminal.stdout);
  const { createCapture } = await import('../capture.ts');
  const { forwardTo } = await import('../forward.ts');
  const server = createCapture({
    secrets: secret,
    bodyLimit: maxBody,
    delay: slow,
    clock: systemClock,
    forward: forward && forwardTo(forward, secret),
    answer: () => (fail && systemClock.random() < fail.share ? fail.status : 200),
    onRequest: (request: Captured) =>
      options.json ? printJson(terminal, request) : print(terminal, describeRequest(request, colour)),
  });
  const failed = new Promise<never>((_, reject) => server.once('error', reject));
  const listening = new Promise<void>((resolve) => server.listen(port, host, resolve));
  await Promise.race([listening, failed]).catch((error: NodeJS.ErrnoException) => {
    const reason = error.code === 'EADDRINUSE' ? `port ${port} is taken; --port 0 takes a free one` : error.message;
    throw new RollcallError('bad_usage', `Can't listen on ${host}: ${reason}.`, { cause: error });
  });
  const { address, port: actual, family } = server.address() as AddressInfo;
  const url = `http://${family === 'IPv6' ? `[${address}]` : address}:${actual}`;
  note(terminal, `Listening on ${url}${secret.length > 0 ? ', verifying signatures' : ''}. Ctrl-C ends it.`);
  await Promise.race([aborted(terminal.signal), failed]);
  server.close();
  server.closeAllConnections();
}

function webUrl(text: string): URL {
  const url = URL.parse(text);
  if (url?.protocol === 'http:' || url?.protocol === 'https:') return url;
  throw new InvalidArgumentError('It must be a URL, such as http://localhost:3000/hooks.');
}

function failure(text: string): FailureShare {
  const { status, share = '1' } = /^(?<status>[2-5]\d\d)(?::(?<share>0|1|0?\.\d+|1\.0+))?$/.exec(text)?.groups ?? {};
  if (status === undefined) throw new InvalidArgumentError('It must be a status and a share, such as 503:0.3.');
  return { status: Number(status), share: Number(share) };
}
