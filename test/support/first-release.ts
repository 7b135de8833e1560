// A state directory as the first release left it when it was killed: its rows (SQL text) in the
// tables of its migrations, its log, its files. All times are moved to just before now, so that no
// wait has expired.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { MIGRATIONS as AGENTD } from '../../src/daemons/agentd/store/schema.ts';
import { openLog } from '../../src/daemons/auditd-ai/log/log.ts';
import { MIGRATIONS as MODELD } from '../../src/daemons/modeld/store/tables.ts';
import { MIGRATIONS as TOOLD } from '../../src/daemons/toold/store/schema.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { sha256Hex } from '../../src/platform/json.ts';
import { ROOT } from './runtime.ts';

const SQL = join(ROOT, 'test', 'scenario', 'first-release');
const STATE_DIR = '/var/lib/agentd';
const KILLED_MS = Date.parse('2026-11-15T13:41:26.000Z');
/** The last event that agentd had sent. */
const AGENTD_TOLD = 19;

const SCHEMAS = { agentd: AGENTD[0]!, toold: TOOLD[0]!, modeld: MODELD[0]! };

export const OLD = {
  /** Ended, with an artifact. */
  hello: 'task_01m7fq1rv38bw7e9njkqkdfkcz',
  artifact: 'artifact_01m7fq1s61djarnaf3xdvedez6',
  sketch: `[rehearsal] Sketch

1. Write a failing test for: Hello
2. Make it pass.
3. Read it once more.
`,
  /** Waits for a person. */
  asks: 'task_01m7fq1sfh4s22j80zdd26v1as',
  question: 'wait_01m7fq1sxr8rr6bf0d14c52843',
  /** Killed after its first delegation, before the response. */
  plan: 'task_01m7fq1xzq9xdbvws3t9aq5dr4',
  child: 'task_01m7fq1yc14gxpynbzhsf4gwc0',
};

const TEAM = [
  { name: 'coder', description: 'Writes code.', persona: 'You write code.', tools: '' },
  {
    name: 'planner',
    description: 'Splits work.',
    persona: 'You split work.',
    tools: 'task.delegate',
  },
  { name: 'researcher', description: 'Finds out.', persona: 'You find out.', tools: '' },
];

/**
 * Resolves with the log's checkpoint, as if stored elsewhere. agentd was killed before it had sent
 * its last events; `toldUntil` changes which.
 */
export async function writeFirstRelease(
  stateDir: string,
  toldUntil = AGENTD_TOLD,
): Promise<{ checkpoint: string }> {
  const nowMs = Date.now();
  mkdirSync(stateDir, { recursive: true, mode: 0o700 });
  writeFileSync(join(stateDir, 'VERSION'), '1\n', { mode: 0o600 });
  mkdirSync(join(stateDir, 'agents'), { mode: 0o700 });
  for (const { name, description, persona, tools } of TEAM)
    writeFileSync(
      join(stateDir, 'agents', `${name}.yaml`),
      `apiVersion: agentd/v1
kind: Agent
metadata: { name: ${name}, description: ${description} }
spec: { persona: ${persona}, tools: { allow: [${tools}] } }
`,
    );
  const hash = sha256Hex(OLD.sketch);
  const object = join(stateDir, 'objects', 'sha256', hash.slice(0, 2), hash.slice(2, 4), hash);
  mkdirSync(dirname(object), { recursive: true, mode: 0o700 });
  writeFileSync(object, OLD.sketch);
  const events: Event[] = [];
  for (const [name, schema] of Object.entries(SCHEMAS)) {
    const db = new DatabaseSync(join(stateDir, `${name}.sqlite`));
    const rows = readFileSync(join(SQL, `${name}.sql`), 'utf8');
    const moved = moveTimes(rows, nowMs).replaceAll(STATE_DIR, stateDir);
    db.exec(`PRAGMA journal_mode=WAL; ${schema}; ${moved}; PRAGMA user_version = 1`);
    for (const { event } of db.prepare('SELECT event FROM outbox ORDER BY seq').all())
      events.push(JSON.parse(event as string) as Event);
    db.close();
  }
  const index = new DatabaseSync(join(stateDir, 'auditd-ai.sqlite'));
  index.exec(readFileSync(join(SQL, 'auditd-ai.sql'), 'utf8'));
  index.close();
  const sent = events.filter((event) => event.source !== 'agentd' || event.source_seq <= toldUntil);
  return { checkpoint: await writeLog(stateDir, sent) };
}

type Event = { ts: string; source: string; source_seq: number };

async function writeLog(stateDir: string, sent: Event[]): Promise<string> {
  sent.sort((a, b) => a.ts.localeCompare(b.ts));
  const log = await openLog({
    dir: join(stateDir, 'audit'),
    origin: 'agentd.local/audit',
    clock: systemClock(),
    segmentBytesMax: 1 << 20,
    checkpointEveryMs: 1_000,
  });
  const bodies = sent.map((event) => JSON.stringify(event));
  await log.append(bodies.slice(0, 20));
  await log.signNow();
  await log.append(bodies.slice(20));
  await log.close();
  return readFileSync(join(stateDir, 'audit', 'checkpoint'), 'utf8');
}

/** Milliseconds since 1970, and times as text. */
function moveTimes(text: string, nowMs: number): string {
  const byMs = nowMs - KILLED_MS;
  return text
    .replace(/\b179\d{10}\b/g, (ms) => String(Number(ms) + byMs))
    .replace(/\b20\d\d-\d\d-\d\dT[\d:.]+Z/g, (ts) => new Date(Date.parse(ts) + byMs).toISOString());
}
