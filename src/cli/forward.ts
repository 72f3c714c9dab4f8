import { request } from 'undici';
import { SIGNATURE_HEADERS, signatureMistake } from '../deliver/signature-mistakes.ts';

export interface ForwardedRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  /** True if a secret is known, and the request is signed with it. */
  readonly isRight: boolean;
}

export interface ForwardedAnswer {
  readonly status: number;
  readonly type: string;
  readonly body: string;
  /** The fault of an app that refuses a right signature, or the reason why it did not answer. */
  readonly advice: string | null;
}

const OWN_HEADERS = new Set(['host', 'connection', 'content-length', 'transfer-encoding', 'keep-alive', 'expect']);
/** Characters of an answer that are passed back. */
const ANSWER_LIMIT = 64 * 1024;
const TIMEOUT = 60_000;
const GENERAL =
  'The signature is right: compare the secret of the app with --secret, and verify the bytes before parsing them';

/** Passes requests on to an app. A path of its own replaces that of the request. */
export function forwardTo(
  target: URL,
  secrets: readonly string[],
): (given: ForwardedRequest) => Promise<ForwardedAnswer> {
  return async (given) => {
    const { headers, path, isRight } = given;
    const url = target.pathname === '/' ? withinApp(path, target) : target;
    const own = Object.entries(headers).filter(([name]) => !OWN_HEADERS.has(name));
    const answer = await post(url, given, Object.fromEntries(own));
    if (answer.status !== 401 || !isRight) return answer;
    const others = own.filter(([name]) => !SIGNATURE_HEADERS.includes(name));
    const mistake = await signatureMistake(signedBody(given, secrets), async (signatures) => {
      const { status } = await post(url, given, { ...Object.fromEntries(others), ...signatures });
      return status >= 200 && status < 300;
    });
    return { ...answer, advice: mistake ?? GENERAL };
  };
}

/** The app's URL with this path: also if a request names another server. */
function withinApp(path: string, app: URL): URL {
  const url = new URL(app);
  const [, pathname = '/', search = ''] = /^(?:\w+:\/\/[^/?]*)?([^?]*)(.*)$/s.exec(path) ?? [];
  url.pathname = pathname;
  url.search = search;
  return url;
}

function signedBody({ headers, body }: ForwardedRequest, secrets: readonly string[]) {
  const { 'webhook-id': id, 'webhook-timestamp': seconds, 'x-signature': own } = headers;
  const signing = id === undefined ? 'x-signature' : own === undefined ? 'standard' : 'both';
  return { body, secrets, signing, id: id ?? '', at: Number(seconds ?? 0) * 1000 } as const;
}

async function post(url: URL, given: ForwardedRequest, headers: Record<string, string>): Promise<ForwardedAnswer> {
  const { method, body } = given;
  try {
    const answer = await request(url, {
      method: method as 'POST',
      headers,
      ...(body.length > 0 && { body }),
      headersTimeout: TIMEOUT,
      bodyTimeout: TIMEOUT,
    });
    const type = answer.headers['content-type'];
    let text = '';
    for await (const chunk of answer.body.setEncoding('utf8')) {
      text += chunk;
      if (text.length > ANSWER_LIMIT) break;
    }
    return { status: answer.statusCode, type: typeof type === 'string' ? type : '', body: text, advice: null };
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    return { status: 502, type: '', body: '', advice: `The app did not answer: ${code ?? message}` };
  }
}
