// Stores the briefing of a run. Members that repeat from run to run are parts, each stored once by
// the hash of its text; runs.briefing has the rest, with null in their place. A row of an older
// version has the whole briefing and refers to no part.
import { sha256Hex } from '../../../platform/json.ts';
import type { Sql } from '../../../platform/sql/database.ts';
import { fault } from '../../../wire/errors.ts';
import type { BriefedMemories } from '../../../wire/memoryd/for-agentd.ts';
import type { RunRow } from './rows.ts';

export type BriefingMembers = Record<string, unknown>;

/** Equal for many runs. The other members name the run or its task. */
const SHARED_MEMBERS = ['persona', 'inputs', 'tools', 'colleagues'] as const;
/** A reference and its index entry take about half of this. */
const PART_CHARS_MIN = 256;

/** The text of each memory is a part too, so that it can be forgotten in all briefings at once. */
const MEMORY_PREFIX = 'memory:';

const readMemories = ({ memory }: BriefingMembers) =>
  (memory as BriefedMemories | undefined)?.found;

/** Resolves to false for a second briefing of a run: the first one was shown to its runner. */
export async function saveBriefing(
  sql: Sql,
  runId: string,
  briefing: BriefingMembers,
): Promise<boolean> {
  const shared = new Map<string, string>();
  for (const member of SHARED_MEMBERS) {
    const body = JSON.stringify(briefing[member]) ?? '';
    if (body.length >= PART_CHARS_MIN) shared.set(member, body);
  }
  const blanks: BriefingMembers = Object.fromEntries(
    [...shared.keys()].map((member) => [member, null]),
  );
  const memories = readMemories(briefing) ?? [];
  if (memories.length > 0) {
    const found = memories.map((memory) => ({ ...memory, text: null }));
    blanks.memory = { ...(briefing.memory as BriefedMemories), found };
  }
  for (const { id, text } of memories)
    if (text !== null) shared.set(`${MEMORY_PREFIX}${id}`, JSON.stringify(text));
  const saved = await sql.run(
    'UPDATE runs SET briefing = ? WHERE id = ? AND briefing IS NULL',
    JSON.stringify({ ...briefing, ...blanks }),
    runId,
  );
  if (saved === 0) return false;
  for (const [member, body] of shared)
    await sql.run(
      'INSERT INTO run_briefing_parts (run_id, member, part_id) VALUES (?, ?, ?)',
      runId,
      member,
      await savePart(sql, body),
    );
  return true;
}

async function savePart(sql: Sql, body: string): Promise<number> {
  const hash = sha256Hex(body);
  const find = () => sql.one<{ id: number }>('SELECT id FROM briefing_parts WHERE hash = ?', hash);
  const found = await find();
  if (found !== undefined) return Number(found.id);
  await sql.run(
    `INSERT INTO briefing_parts (id, hash, body)
     SELECT COALESCE(MAX(id), 0) + 1, ?, ? FROM briefing_parts`,
    hash,
    body,
  );
  return Number((await find())!.id);
}

/** Returns the briefing with the members and the order it was saved with, if there is one. */
export async function readBriefing(
  sql: Sql,
  run: Pick<RunRow, 'id' | 'briefing'>,
): Promise<BriefingMembers | undefined> {
  if (run.briefing === null) return undefined;
  const briefing = JSON.parse(run.briefing) as BriefingMembers;
  const parts = await sql.all<{ member: string; body: string | null }>(
    `SELECT r.member, p.body FROM run_briefing_parts r
     LEFT JOIN briefing_parts p ON p.id = r.part_id WHERE r.run_id = ?`,
    run.id,
  );
  for (const { member, body } of parts) {
    if (body === null)
      throw fault('storage_broken', `the briefing of ${run.id} has lost its ${member}`);
    const memory = readMemories(briefing)?.find(({ id }) => member === `${MEMORY_PREFIX}${id}`);
    if (memory === undefined) briefing[member] = JSON.parse(body);
    else memory.text = JSON.parse(body) as string;
  }
  return briefing;
}

/**
 * Releases the parts of a run whose row is about to be deleted, and deletes those that no other run
 * refers to. Takes a few index lookups, however many runs and parts there are, and leaves no part
 * without a reference, so that no other job has to look for them.
 */
export async function releaseBriefing(sql: Sql, runId: string): Promise<void> {
  const parts = await sql.all<{ part_id: number }>(
    'SELECT part_id FROM run_briefing_parts WHERE run_id = ?',
    runId,
  );
  await sql.run('DELETE FROM run_briefing_parts WHERE run_id = ?', runId);
  for (const { part_id } of parts)
    await sql.run(
      `DELETE FROM briefing_parts WHERE id = ?
       AND NOT EXISTS (SELECT 1 FROM run_briefing_parts WHERE part_id = ?)`,
      part_id,
      part_id,
    );
}
