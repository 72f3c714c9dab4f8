/**
 * Runs a function of Azure's programming model 4 behind HTTP: `node azure.ts MODULE`. The classes are those of
 * `@azure/functions`. In place of the worker, which npm does not have, this registers the function and invokes it.
 */
import { randomUUID } from 'node:crypto';
import { registerHooks } from 'node:module';
import { pathToFileURL } from 'node:url';
import { type Answer, type Given, serveFunction } from './function-host.ts';

interface Metadata {
  readonly name: string;
  readonly bindings: Readonly<Record<string, { readonly type: string; readonly direction: string }>>;
}
type Callback = (...inputs: readonly unknown[]) => unknown;
interface Invocation {
  getArguments(): Promise<{ context: object; inputs: unknown[] }>;
  invokeFunction(context: object, inputs: unknown[], callback: Callback): Promise<unknown>;
  getResponse(context: object, result: unknown): Promise<{ returnValue?: { http: RpcAnswer } }>;
}
interface RpcAnswer {
  readonly statusCode: string;
  readonly headers: Record<string, string>;
  readonly body: { readonly bytes: Uint8Array };
}
interface Model {
  getCapabilities(given: object): Promise<{ HttpUri?: string }>;
  getInvocationModel(context: object): Invocation;
}

let model: Model | undefined;
let registered: { readonly metadata: Metadata; readonly callback: Callback } | undefined;

/** The module that the worker gives to `@azure/functions`. */
const core = {
  hostVersion: '4.1040.0',
  setProgrammingModel: (given: Model) => {
    model = given;
  },
  registerFunction: (metadata: Metadata, callback: Callback) => {
    registered = { metadata, callback };
  },
  registerHook: () => {},
  log: () => {},
};
Object.assign(globalThis, { azureCore: core });
const url = 'azure:core';
registerHooks({
  resolve: (specifier, context, next) =>
    specifier === '@azure/functions-core' ? { url, format: 'commonjs', shortCircuit: true } : next(specifier, context),
  load: (given, context, next) =>
    given === url
      ? { format: 'commonjs', source: 'module.exports = globalThis.azureCore', shortCircuit: true }
      : next(given, context),
});

await import(pathToFileURL(process.argv[2] ?? '').href);
if (model === undefined || registered === undefined) throw new Error('the module registers no function');
const { metadata, callback } = registered;
const programming: Model = model;
const { HttpUri } = await programming.getCapabilities({});

/** The request as the worker gives it, and the answer that it makes. */
async function invoke(given: Given, invocationId: string): Promise<RpcAnswer | undefined> {
  const { method, path, query, headers, body } = given;
  const http = { method, url: `http://localhost${path}?${query}`, nullableHeaders: {}, headers, body: { bytes: body } };
  const [trigger = ''] = Object.entries(metadata.bindings).find(([, { type }]) => type === 'httpTrigger') ?? [];
  const request = {
    inputData: [{ name: trigger, data: { http } }],
    triggerMetadata: { Headers: { json: JSON.stringify(headers) } },
  };
  const invocation = programming.getInvocationModel({
    invocationId,
    metadata,
    request,
    log: () => {},
    state: 'invocation',
  });
  const { context, inputs } = await invocation.getArguments();
  const result = await invocation.invokeFunction(context, inputs, callback);
  return (await invocation.getResponse(context, result)).returnValue?.http;
}

async function call(given: Given): Promise<Answer> {
  const id = randomUUID();
  if (HttpUri === undefined) {
    const answer = await invoke(given, id);
    return { status: Number(answer?.statusCode), headers: answer?.headers ?? {}, body: answer?.body.bytes ?? '' };
  }
  // With `enableHttpStream` the host passes the request to the worker's own server, beside the invocation.
  const passed = fetch(`${HttpUri.slice(0, -1)}${given.path}`, {
    method: given.method,
    headers: { 'x-ms-invocation-id': id, 'x-forwarded-host': 'localhost', 'x-forwarded-proto': 'http' },
    ...(given.body.length > 0 && { body: new Uint8Array(given.body) }),
  });
  await invoke(given, id);
  const answer = await passed;
  return { status: answer.status, headers: Object.fromEntries(answer.headers), body: await answer.bytes() };
}

serveFunction(call);
