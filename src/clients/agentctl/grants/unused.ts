// Ends grants that no task names any more: not even an ended one, whose layer may still be applied
// to the directory until the task is pruned.
import { Fault } from '../../../wire/errors.ts';
import type { Session } from '../command.ts';
import { openGrants } from './grants.ts';

const PAGE = 1_000;
/** Beyond that many tasks, all grants stay: what is not searched may name them. */
const PAGES_MAX = 200;

/** Resolves to the directories whose grants it has ended. */
export async function revokeUnused(session: Session): Promise<string[]> {
  const grants = openGrants(session);
  const all = await grants.list();
  // Programs are named by no task.
  const unused = new Set(all.flatMap(({ path, access }) => (access === 'work' ? [path] : [])));
  let cursor: string | undefined;
  for (let page = 0; unused.size > 0; page++) {
    const query = { limit: PAGE, ...(cursor === undefined ? {} : { cursor }) };
    const answer = await session.runtime().call('agentd', 'listTasks', { query });
    for (const { workspace } of answer.tasks) if (workspace !== null) unused.delete(workspace);
    if (answer.cursor === null) break;
    if (page === PAGES_MAX) return [];
    cursor = answer.cursor;
  }
  const revoked: string[] = [];
  for (const path of unused) if (await grants.revoke(path)) revoked.push(path);
  return revoked.sort();
}

/** The same after a pass of the retention, whose result does not depend on it. */
export async function revokeUnusedIfPossible(session: Session): Promise<string[]> {
  try {
    return await revokeUnused(session);
  } catch (error) {
    if (error instanceof Fault) return [];
    throw error;
  }
}
