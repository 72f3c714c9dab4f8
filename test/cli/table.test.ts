import t from 'tap';
import { table } from '../../src/cli/output/table.ts';
import { painter } from '../../src/cli/output/terminal.ts';

const header = ['id', 'url', 'state'];
const rows = [
  ['e1', 'https://crm.example.com/a/very/long/path/of/hooks', 'open'],
  ['e2', 'https://x.example', 'dead'],
];

t.test('removes line breaks and control characters of foreign text', async (t) => {
  const { green } = painter(true);
  const foreign = ['a\r\nb\u001b[2J\u0007c', 'LINE 2: select\n        ^\u001b[8mhides', green('open')];
  const text = `a b [2J c  LINE 2: select ^ [8mhides  ${green('open')}`;
  t.equal(table(header, [foreign]).split('\n')[1], text);
  t.equal(table(header, [foreign], { width: 10, below: ['state'] }).split('\n').length, 3, 'in blocks neither');
});

t.test('makes columns as wide as their widest cell without a width', async (t) => {
  t.equal(
    table(header, rows),
    [
      'id  url                                                state',
      'e1  https://crm.example.com/a/very/long/path/of/hooks  open',
      'e2  https://x.example                                  dead',
    ].join('\n'),
  );
});

t.test('has as many rows as there are', async (t) => {
  // As arguments of one call they would be too many.
  const rows = Array.from({ length: 200_000 }, (_, n) => [String(n)]);
  t.equal(table(['n'], rows).split('\n').length, rows.length + 1);
});

t.test('cuts flexible columns if the table does not fit', async (t) => {
  const lines = table(header, rows, { width: 40, flexible: ['url'] }).split('\n');
  t.ok(lines.every((line) => line.length <= 40));
  t.equal(lines[1], 'e1  https://crm.example.com/a/ve…  open');
  t.equal(lines[2]?.endsWith('dead'), true);
});

t.test('prints each row as a block with its full text if cutting is not enough', async (t) => {
  t.equal(
    table(['id of a row', 'url'], [['an-id-of-twenty-chars', 'x']], { width: 20, flexible: ['url'] }),
    'id of a row  an-id-of-twenty-chars\nurl          x',
  );
  t.equal(
    table(header, rows, { width: 10, below: ['state'] }),
    [
      'id     e1',
      'url    https://crm.example.com/a/very/long/path/of/hooks',
      'state  open',
      '',
      'id     e2',
      'url    https://x.example',
      'state  dead',
    ].join('\n'),
  );
});

t.test('counts wide characters and colours by their width on a terminal', async (t) => {
  const text = table(
    ['name', 'n'],
    [
      ['日本語', '1'],
      [painter(true).red('ab'), '2'],
    ],
  );
  t.equal(text, `name    n\n日本語  1\n${painter(true).red('ab')}      2`);
});

t.test('moves columns to a second line if lines are too long', async (t) => {
  const below = ['state'];
  const wide = [
    ['e1', 'a'.repeat(20), 'open'],
    ['e2', 'b', ''],
  ];
  t.equal(table(header, wide, { width: 31, below }), table(header, wide), 'they fit');
  t.equal(
    table(header, wide, { width: 25, below }),
    ['id  url', `e1  ${'a'.repeat(20)}`, '  state open', 'e2  b'].join('\n'),
  );
  t.match(table(header, wide, { width: 20, below }), /^id +e1\nurl +a+\nstate +open\n/, 'not even so');
});

t.test('moves the last columns down, as many as have to, so that one long name makes no blocks', async (t) => {
  const long = [['e1', 'crm-of-the-whole-company-and-its-daughters', 'open', '17', '0']];
  const text = table(['endpoint', 'destination', 'state', 'pending', 'dead'], long, { width: 60 });
  t.equal(text, `endpoint  ${'destination'.padEnd(42)}  state\ne1        ${long[0]?.[1]}  open\n  pending 17, dead 0`);
  t.ok(text.split('\n').every((line) => line.length <= 60));
});

t.test('shows times as people read them on a terminal, and whole in a pipe', async (t) => {
  const now = new Date();
  const rows = [[now.toISOString()], ['2001-02-03T12:00:00.000Z'], ['2001-02-03']];
  const [, ...shown] = table(['at'], rows, { width: 80 }).split('\n');
  t.same(shown, [now.toTimeString().slice(0, 8), '3 Feb 2001', '2001-02-03']);
  t.match(table(['at'], rows), now.toISOString());
});
