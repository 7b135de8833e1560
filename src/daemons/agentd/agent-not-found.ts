// What is said of an agent that there is not: with the name that was probably meant.
import { nearest } from '../../platform/did-you-mean.ts';
import type { Sql } from '../../platform/sql/database.ts';
import { type Fault, fault } from '../../wire/errors.ts';

export function agentNotFound(name: string, known: readonly string[]): Fault {
  const near = nearest(name, known);
  const guess = near === undefined ? '' : `; did you mean ${near}?`;
  return fault('not_found', `there is no agent ${name}${guess}`, { hint: 'See agentctl list.' });
}

export async function agentNames(sql: Sql): Promise<string[]> {
  const rows = await sql.all<{ name: string }>("SELECT name FROM agents WHERE status <> 'removed'");
  return rows.map(({ name }) => name);
}
