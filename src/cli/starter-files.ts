import { configJsonSchema } from '../config/schema.ts';
import { VERSION } from '../kernel/version.ts';

export interface Starter {
  /** Include orders and an audience over them. */
  readonly sample: boolean;
  readonly receiver: boolean;
  readonly port: number;
  readonly receiverPort: number;
  readonly secret: () => string;
}

/** The files of a new project: path → text. Paths are relative to its folder. */
export function starterFiles(starter: Starter): ReadonlyMap<string, string> {
  const files = new Map([['.env', environment(starter)]]);
  if (starter.sample) files.set('orders.csv', ORDERS);
  if (starter.receiver) {
    files.set('receiver/receiver.ts', receiver(starter));
    files.set('receiver/package.json', RECEIVER_PACKAGE);
    files.set('receiver/tsconfig.json', RECEIVER_TSCONFIG);
  }
  files.set('rollcall.schema.json', json(configJsonSchema()));
  // Last, because it marks the project as complete: until it exists, `init` can be run again.
  files.set('rollcall.yaml', configuration(starter));
  return files;
}

/** Files that must not be committed: they have secrets, or ids of users. */
export const IGNORED: readonly string[] = [
  ...['.env', 'rollcall.token', 'node_modules/', 'rollcall.db*', 'audiences.duckdb*'],
  ...['receiver.db*', 'events/'],
];

const configuration = ({
  port,
  receiverPort,
  sample,
}: Starter) => `# yaml-language-server: $schema=./rollcall.schema.json
# All settings: docs/configuration.md in node_modules/rollcall. Check this file: rollcall config check
# After an update, so that your editor knows new settings: rollcall config schema > rollcall.schema.json
# Secrets come from the environment, or from the file .env beside this one.
store: sqlite:./rollcall.db
listen: { port: ${port} }
network: { allow: [127.0.0.0/8] } # private addresses are refused unless they are allowed here
admin: { token: "\${ADMIN_TOKEN}" } # for the pages, the management API, deletion requests and metrics

sources:
  - { id: shop, writeKey: "\${SHOP_WRITE_KEY}" } # what your apps record
  - { id: personas, writeKey: "\${PERSONAS_WRITE_KEY}" } # what audiences send

destinations:
  - name: crm
    sources: [shop, personas]
    sharedSecret: "\${CRM_SECRET}"
    webhookUrl: http://127.0.0.1:${receiverPort}/hooks

${sample ? AUDIENCE : NO_AUDIENCE}`;

const AUDIENCE = `engines:
  lake:
    type: duckdb # computes audiences, here over files
    tables:
      orders:
        files: orders.csv
        columns: { customer_id: text, amount: "decimal(18,2)", ordered_on: date }

audiences:
  - name: Big Spenders
    source: personas
    schedule: "*/10 * * * * *" # every ten seconds, for a first look; "*/15 * * * *" is every 15 minutes
    sql: |
      select customer_id as user_id
      from orders
      group by customer_id
      having sum(amount) > 500
`;

const NO_AUDIENCE = `# engines:
#   lake:
#     type: duckdb
#     tables:
#       orders: { files: orders.csv, columns: { customer_id: text, amount: "decimal(18,2)" } }
# audiences:
#   - name: Big Spenders
#     source: personas
#     schedule: "*/15 * * * *"
#     sql: select customer_id as user_id from orders group by 1 having sum(amount) > 500
`;

const environment = ({ secret }: Starter) =>
  ['ADMIN_TOKEN', 'SHOP_WRITE_KEY', 'PERSONAS_WRITE_KEY', 'CRM_SECRET'].map((name) => `${name}=${secret()}\n`).join('');

const ORDERS = `customer_id,amount,ordered_on
ada,320.00,2026-01-12
ada,250.50,2026-02-03
bob,48.90,2026-01-20
cyd,610.00,2026-02-11
dan,120.00,2026-01-31
dan,95.20,2026-02-14
eve,505.10,2026-02-20
`;

const receiver = ({ receiverPort }: Starter) => `import { receiver } from '@rollcall/receivers';
import Fastify from 'fastify';

const app = Fastify();
app.register(receiver, {
  path: '/hooks',
  secret: process.env.CRM_SECRET ?? '',
  on: {
    audience: {
      big_spenders: {
        entered: ({ userId }) => console.log(\`\${userId} entered big_spenders\`),
        exited: ({ userId }) => console.log(\`\${userId} left big_spenders\`),
      },
    },
    track: ({ userId, event }) => console.log(\`\${userId}: \${event}\`),
    delete: ({ userId }) => console.log(\`\${userId} must be deleted\`),
  },
});
console.log(\`Waiting for webhooks at \${await app.listen({ port: ${receiverPort} })}/hooks\`);
`;

const json = (value: object) => `${JSON.stringify(value, null, 2)}\n`;

const RECEIVER_PACKAGE = json({
  name: 'receiver',
  private: true,
  type: 'module',
  scripts: { start: 'node --disable-warning=ExperimentalWarning --env-file-if-exists=../.env receiver.ts' },
  engines: { node: '>=22.20' },
  dependencies: { '@rollcall/receivers': `^${VERSION}`, fastify: '^5.0.0' },
  devDependencies: { '@types/node': '^24.0.0', typescript: '>=5.9' },
});

const RECEIVER_TSCONFIG = json({
  compilerOptions: {
    target: 'es2024',
    module: 'nodenext',
    strict: true,
    noEmit: true,
    types: ['node'],
    skipLibCheck: true,
  },
  include: ['*.ts'],
});
