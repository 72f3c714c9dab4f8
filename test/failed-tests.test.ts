import t from 'tap';
import { failuresOf, report } from '../scripts/failed-tests.ts';

/** What tap prints of suites, files, tests and assertions within each other. */
const RUN = `TAP version 14
# Subtest: test/suites/store.suite.ts
    # Subtest: test/store/a.test.ts
        # Subtest: it holds
            ok 1 - should be equal
            not ok 2 - should be equivalent
              ---
              diff: |
                -expected
                +actual
              at:
                fileName: test/store/a.test.ts
              stack: |
                Test.<anonymous> (test/store/a.test.ts:42:7)
              ...
            
            1..2
        not ok 1 - it holds # time=632.463ms
          ---
          at:
            lineNumber: 34
          ...
        
        # Subtest: it throws
            not ok 1 - no such thing
            1..1
        not ok 2 - it throws # time=2ms
        
        not ok 3 - of which it is known # TODO
        1..3
    not ok 1 - test/store/a.test.ts # time=2138.093ms
    
    1..1
not ok 1 - test/suites/store.suite.ts # time=2140ms
  ---
  exitCode: 1
  ...

# Subtest: test/suites/jobs.suite.ts
    # Subtest: test/jobs/b.test.ts
        ok 1 - should be equal
not ok 2 - test/suites/jobs.suite.ts # time=15790.801ms
  ---
  exitCode: null
  signal: SIGKILL
  ...

ok 3 - test/suites/live.suite.ts # time=1ms

1..3
# { total: 5, pass: 2, fail: 3 }
`;

t.test('names each failure once, with its file and details', async (t) => {
  t.same(failuresOf(RUN), [
    {
      name: 'test/suites/store.suite.ts > test/store/a.test.ts > it holds > should be equivalent',
      lines: ['diff: |', '  -expected', '  +actual', 'stack: |', '  Test.<anonymous> (test/store/a.test.ts:42:7)'],
    },
    { name: 'test/suites/store.suite.ts > test/store/a.test.ts > it throws > no such thing', lines: [] },
    { name: 'test/suites/jobs.suite.ts', lines: ['exitCode: null', 'signal: SIGKILL'] },
  ]);
});

t.test('names a process that ends by a signal together with its failures', async (t) => {
  const killed = RUN.replace('exitCode: 1', 'signal: SIGABRT');
  t.match(
    failuresOf(killed).map(({ name }) => name),
    [/should be equivalent$/, /no such/, /store.suite.ts$/, /jobs.suite.ts$/],
  );
});

t.test('names no failures of a run that passes, or that left nothing', async (t) => {
  t.same(failuresOf('TAP version 14\nok 1 - all\n1..1\n'), []);
  t.same(failuresOf(''), []);
});

t.test('prints some 200 lines of bounded width, whatever fails', async (t) => {
  const lines = Array.from({ length: 500 }, () => 'x'.repeat(10_000));
  for (const count of [1, 3, 50, 150, 5_000]) {
    const shown = report(Array.from({ length: count }, (_, n) => ({ name: `test ${n}`, lines }))).split('\n');
    t.ok(shown.length <= 201, `${shown.length} lines of ${count} failures`);
    t.ok(shown.every((line) => line.length <= 301));
    t.equal(shown.filter((line) => line.startsWith('not ok: test ')).length, Math.min(200, count));
  }
});
