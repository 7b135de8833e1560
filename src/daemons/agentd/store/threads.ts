// Counts what agents write to each other in a thread, within a transaction: turns since a person
// last wrote there, and who was told that they are used up.
import type { TurnLimit } from '../../../wire/agentd.ts';
import { COMPARED_CHARS } from '../threads/similar-text.ts';
import { checkTurn, type Exchange, type ThreadLimits } from '../threads/turn-rules.ts';
import {
  describeLimit,
  EXCHANGE_CHOICES,
  type RefusedTurn,
  writeExchangeQuestion,
} from '../threads/turn-text.ts';
import type { RunRow, WaitRow } from './rows.ts';
import type { AgentdTx } from './tx.ts';
import { findRoot, openWait } from './waits.ts';

/** `since_id`: messages with a greater id are newer than the last word of a person. */
export const THREADS = `
CREATE TABLE threads (
  context_id TEXT PRIMARY KEY,
  turns INTEGER NOT NULL,
  since_id TEXT NOT NULL,
  told TEXT NOT NULL,
  stopped_by TEXT
);
ALTER TABLE messages ADD COLUMN turn TEXT;`;

/** Whose question a person answers: agentd's own, in the name of a run. */
export const EXCHANGE_ASKER = 'service:agentd';

type ThreadRow = {
  context_id: string;
  turns: number;
  since_id: string;
  /** JSON of the runs that were told. */
  told: string;
  stopped_by: string | null;
};

export type TurnRequest = {
  contextId: string;
  from: string;
  to: string;
  text: string;
  limits: ThreadLimits;
  costMicrousd?: number | undefined;
};

/** Between others than agents there are no turns. */
export type TakenTurn = { turn: number | undefined } | { refused: RefusedTurn };

const HISTORY_ROWS = 64;
const isAgent = (principal: string): boolean => principal.startsWith('agent:');

export async function takeTurn(tx: AgentdTx, request: TurnRequest): Promise<TakenTurn> {
  const { contextId, from, to, text, limits, costMicrousd } = request;
  if (!isAgent(from) || !isAgent(to)) return { turn: undefined };
  const row = await findThread(tx, contextId);
  const history = await readHistory(tx, request, row?.since_id ?? '');
  const { turns = 0, stopped_by: stoppedBy = null } = row ?? {};
  const exchange: Exchange = { turns: Number(turns), stoppedBy, history, costMicrousd };
  const check = checkTurn(exchange, { from, text }, limits);
  if ('refused' in check)
    return { refused: { reason: check.refused, from, to, text, limits, stoppedBy, history } };
  if (check.isNew) await saveTurns(tx, contextId, check.turn);
  return { turn: check.turn };
}

export const findThread = (
  tx: Pick<AgentdTx, 'sql'>,
  contextId: string,
): Promise<ThreadRow | undefined> =>
  tx.sql.one<ThreadRow>('SELECT * FROM threads WHERE context_id = ?', contextId);

async function saveTurns(tx: AgentdTx, contextId: string, turns: number): Promise<void> {
  await tx.sql.run(
    `INSERT INTO threads (context_id, turns, since_id, told, stopped_by) VALUES (?, ?, '', '[]', NULL)
     ON CONFLICT (context_id) DO UPDATE SET turns = excluded.turns`,
    contextId,
    turns,
  );
}

async function readHistory(
  tx: AgentdTx,
  { contextId, from, to }: TurnRequest,
  sinceId: string,
): Promise<Exchange['history']> {
  const rows = await tx.sql.all<{ from_principal: string; to_principal: string; parts: string }>(
    `SELECT from_principal, to_principal, substr(parts, 1, ${COMPARED_CHARS}) AS parts
     FROM messages WHERE context_id = ? AND id > ? ORDER BY id DESC LIMIT ${HISTORY_ROWS}`,
    contextId,
    sinceId,
  );
  const pair = new Set([from, to]);
  return rows
    .filter((row) => pair.has(row.from_principal) && pair.has(row.to_principal))
    .map((row) => ({ from: row.from_principal, text: readStart(row.parts) }))
    .reverse();
}

/** The texts of a message, also of one that was cut off. */
export function readStart(parts: string): string {
  try {
    const all = JSON.parse(parts) as { text?: string }[];
    return all.map(({ text = '' }) => text).join('\n');
  } catch {
    return parts.replace(/^\[\{"kind":"text","text":"/, '');
  }
}

/** A person who writes, asks or answers in a thread lets its agents go on. */
export async function renewTurns(tx: AgentdTx, contextId: string, from: string): Promise<void> {
  if (!from.startsWith('person:')) return;
  await tx.sql.run(
    `UPDATE threads SET turns = 0, since_id = ?, told = '[]', stopped_by = NULL
     WHERE context_id = ?`,
    tx.newId('msg'),
    contextId,
  );
}

/** The answer to a question of `refuseTurn`. */
export async function settleExchange(
  tx: AgentdTx,
  contextId: string,
  { answer, by }: { answer: string; by: string },
): Promise<void> {
  if (answer !== EXCHANGE_CHOICES.stop) return renewTurns(tx, contextId, by);
  await tx.sql.run('UPDATE threads SET stopped_by = ? WHERE context_id = ?', by, contextId);
}

/** The record of a call whose turn was refused; `wait` is the question to a person. */
export type TurnRefusal = {
  refused: { reason: TurnLimit; text: string };
  wait: WaitRow | null;
};

export const toRefusal = (refused: RefusedTurn, wait: WaitRow | null): TurnRefusal => ({
  refused: { reason: refused.reason, text: describeLimit(refused) },
  wait,
});

export type RefuseTurn = {
  callId: string;
  run: RunRow;
  contextId: string;
  refused: RefusedTurn;
  /** Undefined: nobody is asked. */
  questionExpiresMs: number | undefined;
};

/**
 * A run is told once and may then decide; a person is asked when it tries again. Resolves to that
 * question.
 */
export async function refuseTurn(tx: AgentdTx, input: RefuseTurn): Promise<WaitRow | null> {
  const { callId, run, contextId, refused, questionExpiresMs } = input;
  const told = JSON.parse((await findThread(tx, contextId))?.told ?? '[]') as string[];
  const asks =
    questionExpiresMs !== undefined && refused.reason !== 'stopped' && told.includes(run.id);
  await tx.event({
    id: `${callId}.limited`,
    event: 'thread.limited',
    principal: refused.from,
    agent: run.agent,
    task_id: run.task_id,
    ...(await findRoot(tx, run.task_id)),
    run_id: run.id,
    call_id: callId,
    status: refused.reason,
    data: { thread: contextId, to: refused.to, asks_person: asks },
  });
  if (!told.includes(run.id)) await saveTold(tx, contextId, [...told, run.id]);
  if (!asks) return null;
  return openWait(tx, {
    run,
    callId,
    kind: 'question',
    by: ['person'],
    from: EXCHANGE_ASKER,
    question: writeExchangeQuestion(refused),
    choices: Object.values(EXCHANGE_CHOICES),
    expiresMs: questionExpiresMs,
  });
}

async function saveTold(tx: AgentdTx, contextId: string, told: string[]): Promise<void> {
  await tx.sql.run(
    `INSERT INTO threads (context_id, turns, since_id, told, stopped_by) VALUES (?, 0, '', ?, NULL)
     ON CONFLICT (context_id) DO UPDATE SET told = excluded.told`,
    contextId,
    JSON.stringify(told),
  );
}
