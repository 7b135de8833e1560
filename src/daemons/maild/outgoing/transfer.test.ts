// The loop that gives mail to the smarthost, with a smarthost and a clock that the test moves:
// delays, halts, and mail whose text was forgotten meanwhile.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { eventually } from '../../../../test/support/runtime.ts';
import { manualClock } from '../../../platform/clock.ts';
import { deriveId } from '../../../platform/ids.ts';
import { canonicalJson, sha256Hex } from '../../../platform/json.ts';
import { silentLog } from '../../../platform/log.ts';
import { openOutbox } from '../../../platform/outbox.ts';
import { openSqlite } from '../../../platform/sql/sqlite.ts';
import type { CallId, RunId, TaskId } from '../../../wire/primitives.ts';
import { maildConfig } from '../config.ts';
import { makeOutgoingStore } from '../store/outgoing.ts';
import { MIGRATIONS } from '../store/schema.ts';
import type { HandedOver } from './smarthost.ts';
import { makeTransfer } from './transfer.ts';

const dir = mkdtempSync(join(tmpdir(), 'transfer-'));
after(() => rmSync(dir, { recursive: true, force: true }));
let made = 0;

const ANN = 'ann@example.org';
const CALL = deriveId<CallId>('call', 'transfer');
const reply = (code: number): HandedOver => ({
  kind: 'replied',
  replies: new Map([[ANN, { code, enhanced: null, said: String(code) }]]),
});

async function open(handed: () => HandedOver) {
  const clock = manualClock(Date.parse('2026-01-01T00:00:00Z'));
  const db = openSqlite({ file: join(dir, `${made++}.sqlite`), migrations: MIGRATIONS });
  const outbox = await openOutbox({
    db,
    source: 'maild',
    clock,
    append: async () => {},
    log: silentLog,
  });
  const store = makeOutgoingStore({ db, outbox, clock });
  const state = { isHalted: false, attemptsMs: [] as number[], task: 'working' };
  const config = maildConfig.parse({
    domain: 'example.com',
    smarthost: { host: 'smtp.example.com' },
  });
  const transfer = makeTransfer({
    store,
    config,
    async hand() {
      state.attemptsMs.push(clock.nowMs());
      return handed();
    },
    signer: undefined,
    agentd: {
      getTask: async () =>
        ({
          task: { status: state.task, ended_at: state.task === 'working' ? null : 'now' },
        }) as never,
    },
    outbox: { delivered: async () => {} },
    isHalted: () => state.isHalted,
    onEnded: () => {},
    clock,
    log: silentLog,
    failpoint: () => {},
  });
  const content = canonicalJson({ to: [ANN], cc: [], subject: 'Herons', text: 'Seven.' });
  const row = await store.take({
    call_id: CALL,
    id: deriveId<string>('mail', CALL),
    run_id: deriveId<RunId>('run', 1),
    task_id: deriveId<TaskId>('task', 1),
    root_task_id: deriveId<TaskId>('task', 1),
    agent: 'coder',
    message_id: 'm@example.com',
    content,
    content_hash: sha256Hex(content),
    ends_ms: clock.nowMs() + 86_400_000,
    recipients: [{ address: ANN, status: 'due', code: null, enhanced: null, said: null }],
  });
  const reaches = (status: string) =>
    eventually(`the mail to be ${status}`, async () => {
      const found = await store.find(CALL);
      return found?.status === status ? found : undefined;
    });
  const close = async () => {
    await transfer.stop();
    outbox.stop();
    await db.close();
  };
  return { clock, db, store, state, transfer, row, reaches, close };
}

test('temporary refusals are tried again ever later, and given up after a day', async () => {
  const { clock, store, state, transfer, row, reaches, close } = await open(() => reply(451));
  transfer.wake();
  for (let attempts = 1; ; attempts++) {
    const next = await eventually('an attempt', async () => {
      const found = (await store.find(CALL))!;
      const isDeferred = found.attempts === attempts && found.next_ms > clock.nowMs();
      return isDeferred || found.status !== 'due' ? found : undefined;
    });
    if (next.status !== 'due') break;
    clock.advance(Number(next.next_ms) - clock.nowMs());
    await eventually('the next one', async () => state.attemptsMs.length > attempts || undefined);
  }
  const ended = await reaches('failed');
  const waitsS = state.attemptsMs.slice(1).map((ms, i) => (ms - state.attemptsMs[i]!) / 1_000);
  assert.deepEqual(waitsS.slice(0, 8), [60, 120, 240, 480, 960, 1_920, 3_600, 3_600]);
  assert.ok(state.attemptsMs.at(-1)! <= Number(row.ends_ms));
  assert.equal(Number(ended.attempts), state.attemptsMs.length);
  await close();
});

test('while halted nothing is tried, and afterwards it is', async () => {
  const { clock, state, transfer, reaches, close } = await open(() => reply(250));
  state.isHalted = true;
  transfer.wake();
  await new Promise((resolve) => setTimeout(resolve, 50));
  assert.equal(state.attemptsMs.length, 0);
  state.isHalted = false;
  clock.advance(1_000);
  await reaches('sent');
  assert.equal(state.attemptsMs.length, 1);
  await close();
});

test('a mail with a forgotten text, or of a canceled task, is withdrawn; control: it is sent', async () => {
  for (const why of ['forgotten', 'canceled', 'control']) {
    const { db, state, transfer, reaches, close } = await open(() => reply(250));
    if (why === 'forgotten')
      await db.write((sql) =>
        sql.run("UPDATE outgoing SET content = replace(content, 'Seven', '[forgotten]')"),
      );
    if (why === 'canceled') state.task = 'canceled';
    transfer.wake();
    await reaches(why === 'control' ? 'sent' : 'withdrawn');
    assert.equal(state.attemptsMs.length, why === 'control' ? 1 : 0, why);
    await close();
  }
});
