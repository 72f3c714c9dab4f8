import { DatabaseSync } from 'node:sqlite';

/** The customer's own database: what it knows about people, and its record of deletions. */
export function openShop(path: string): DatabaseSync {
  const db = new DatabaseSync(path);
  db.exec(`
    pragma foreign_keys = on;
    create table if not exists customer (id text primary key, email text not null);
    create table if not exists purchase (
      id integer primary key, customer_id text not null references customer (id), amount real not null);
    create table if not exists subscription (email text primary key, customer_id text not null);
    create table if not exists deletion (
      user_id text primary key, requested_at text not null, confirmed_at text, rows_deleted integer);
  `);
  return db;
}

/** People and purchases to try things out with. */
export function fill(db: DatabaseSync, customers: number): void {
  for (let n = 1; n <= customers; n += 1) {
    const [id, email] = [`u${n}`, `u${n}@example.com`];
    db.prepare('insert into customer values (?, ?)').run(id, email);
    db.prepare('insert into purchase (customer_id, amount) values (?, ?), (?, ?)').run(id, 10 * n, id, 5);
    db.prepare('insert into subscription values (?, ?)').run(email, id);
  }
}
