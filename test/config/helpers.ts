import type { Config } from '../../src/config/config.ts';
import { parseConfig } from '../../src/config/load.ts';
import { ConfigurationError, type ShownMistake } from '../../src/config/mistakes.ts';

/** The configuration that docs/configuration.md begins with, word for word. */
export const EXAMPLE = `
serviceName: Rollcall
store: sqlite:./rollcall.db
listen: { host: 127.0.0.1, port: 8080 }
network: { allow: [127.0.0.0/8] }
admin: { token: "\${ADMIN_TOKEN}" }
sources:
  - { id: shop, writeKey: "\${SHOP_WRITE_KEY}" }
  - { id: personas, writeKey: "\${PERSONAS_WRITE_KEY}" }
destinations:
  - name: crm
    sources: [shop, personas]
    enabled: true
    sharedSecret: "\${CRM_SECRET}"
    webhooks:
      - url: https://crm.example.com/hooks
        headers: { x-env: prod }
    require: any
engines:
  lake: { type: duckdb, path: ./audiences.duckdb }
  warehouse: { type: postgres, url: "\${WAREHOUSE_URL}" }
audiences:
  - name: Big Spenders
    engine: lake
    source: personas
    schedule: "*/15 * * * *"
    sql: select customer_id as user_id from read_csv('orders.csv') group by 1 having sum(amount) > 500
    guard: { maxExits: 20%, minMembers: 100 }
traits:
  - name: Lifetime Value
    source: personas
    schedule: "0 3 * * *"
    sql: select user_id, sum(amount) as value from orders group by 1
`;

export const EXAMPLE_ENV = {
  ADMIN_TOKEN: 'the-admin-token-of-this-test',
  SHOP_WRITE_KEY: '0123',
  PERSONAS_WRITE_KEY: 'p',
  CRM_SECRET: 's',
  WAREHOUSE_URL: 'postgres://u:p@db.example.com/w',
};

type Environment = Readonly<Record<string, string | undefined>>;

export function parse(text: string, env: Environment = {}): Config {
  return parseConfig(text, { file: 'rollcall.yaml', folder: '/etc/rollcall', env });
}

/** The mistakes in a text, by path. */
export function mistakesIn(text: string, env: Environment = {}): Readonly<Record<string, ShownMistake>> {
  try {
    parse(text, env);
    return {};
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error;
    return Object.fromEntries(error.mistakes.map((mistake) => [mistake.path, mistake]));
  }
}

/** A text that is right but for what is added: top-level keys, keys of its one destination and of its one audience. */
export function withParts({ top = '', destination = '', audience = '' }): string {
  return `
sources: [{ id: shop, writeKey: wk }]
destinations:
  - name: crm
    sources: [shop]
${indent(destination || 'webhookUrl: https://crm.example.com/')}
audiences:
  - source: shop
${indent(audience || 'name: Everyone\nsql: select 1 as user_id')}
${top}
`;
}

function indent(text: string): string {
  return text.replace(/^/gm, '    ');
}
