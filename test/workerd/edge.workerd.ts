import t, { type Test } from 'tap';
import { conformance, createSender, signed, webhook } from '../../receivers/testing.ts';
import { until } from '../helpers/until.ts';
import { examplesOf } from '../receivers/helpers/documents.ts';
import { ROOT, run } from './worker.ts';

const secret = 'the secret of a Worker';

/** Runs a module that imports the kit by its name. */
async function start(t: Test, code: string) {
  const built = code.replaceAll('@rollcall/receivers', `${ROOT}/receivers/dist`).replaceAll("/edge'", "/edge.js'");
  const { url, said } = await run(t, built, { bindings: { ROLLCALL_SECRET: secret } });
  return { url: `${url}hooks`, said };
}

const recipe = examplesOf('docs/receivers.md').find(({ heading }) => heading === 'Edge runtimes')?.code ?? '';

t.test('the recipe passes every conformance case in workerd', async (t) => {
  const { url, said } = await start(t, recipe.replace('forget(userId)', "console.log('forgot', userId)"));
  for await (const result of conformance({ url, secret, batches: true })) {
    t.ok(result.passed, `${result.name}: ${result.got}`, { expected: result.expected, error: result.error });
  }
  t.equal((await createSender({ url, secret }).send(webhook('delete', { userId: 'the last' }))).status, 200);
  await until(() => said.join('').includes('forgot the last'));
});

const slow = `
import { createReceiver } from '@rollcall/receivers/edge';
const hooks = createReceiver({
  secret: ${JSON.stringify(secret)},
  deadline: 500,
  log: { warn() {}, error() {} },
  on: {
    async track({ event, userId }) {
      if (event === 'never') await new Promise(() => {});
      await new Promise((resolve) => setTimeout(resolve, event === 'late' ? 900 : 100));
      console.log('done', event, userId);
    },
  },
});
export default { fetch: (request, env, context) => hooks.handle(request, context) };
`;

t.test(
  'made before the first request, it keeps its deadlines, one run of each message, and what is late',
  async (t) => {
    const { url, said } = await start(t, slow);
    const post = async (body: unknown) => (await fetch(url, { method: 'POST', ...signed(body, secret) })).status;
    const track = (event: string, userId: string) => webhook('track', { event, userId });
    t.equal(await post(track('quick', 'u1')), 200);
    const same = track('quick', 'u2');
    t.same(await Promise.all([post(same), post(same), post(same)]), [200, 200, 200], 'at once');
    t.same(await Promise.all([post(track('never', 'u3')), post(track('never', 'u4'))]), [503, 503]);
    const late = track('late', 'u5');
    t.equal(await post(late), 503);
    t.equal(await post(late), 200, 'the repetition joins what went on');
    await until(() => said.join('').includes('done late u5'));
    for (const handled of [/done quick u2/g, /done late u5/g])
      t.equal(said.join('').match(handled)?.length, 1, 'handled once');
  },
);
