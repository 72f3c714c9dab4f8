import { Ajv2020 } from 'ajv/dist/2020.js';
import t from 'tap';
import { parse as parseYaml } from 'yaml';
import { configJsonSchema } from '../../src/config/schema.ts';
import { EXAMPLE } from './helpers.ts';

const check = new Ajv2020({ allowUnionTypes: true, strict: false }).compile(configJsonSchema());

t.test('accepts the example and refuses what the program refuses in the JSON Schema', async (t) => {
  const example = parseYaml(EXAMPLE);
  t.ok(check(example), JSON.stringify(check.errors));
  t.notOk(check({ ...example, serviceNam: 'x' }), 'unknown key');
  t.notOk(check({ ...example, sources: [{ id: 'x' }] }), 'no write key');
  t.notOk(check({ ...example, listen: { port: 70_000 } }), 'port out of range');
  t.notOk(check({ ...example, destinations: [{ name: 'x', sources: ['shop'] }] }), 'no webhook');
  t.notOk(check({ ...example, attempts: { keep: 'long' } }), 'no duration');
});
