import t from 'tap';
import { migratePostgres } from '../../../src/store/postgres/migrate.ts';
import { postgresFixtures } from '../../contract/postgres-fixture.ts';
import { storeContract } from '../../contract/store.ts';
import { startFastPostgres } from '../../helpers/postgres.ts';

const server = await startFastPostgres();
const url = await server.database();
await migratePostgres(url);
const fixtures = await postgresFixtures(url);
await storeContract(t, 'postgres', fixtures.open);
await fixtures.end();
await server.stop();
