// Briefings: what runs share is stored once, each reads back as it was saved, and a run that is
// deleted takes with it only what no other run needs.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Database } from '../../../platform/sql/database.ts';
import { type BriefingMembers, releaseBriefing } from './briefings.ts';
import { DATABASES, faultCode, type StoreWorld, world } from './testing.ts';

const TOOLS = Array.from({ length: 20 }, (_, i) => ({
  name: `tool.${i}`,
  description: 'does “it” \u2028 and more',
  input_schema: { type: 'object', properties: { 1: {}, b: {}, a: {} }, ['__proto__']: [] },
}));
const PERSONA = 'You write code. '.repeat(50);

const makeBriefing = (runId: string, over: BriefingMembers = {}): BriefingMembers => ({
  run_id: runId,
  persona: PERSONA,
  task: { goal: 'g'.repeat(500) },
  inputs: [],
  tools: TOOLS,
  colleagues: [],
  limits: { max_steps: 3, max_tokens: null },
  ...over,
});

type BriefingWorld = StoreWorld & {
  db: Database;
  startRun(): Promise<string>;
  read(runId: string): Promise<string | undefined>;
  count(table: string): Promise<number>;
};

async function briefingWorld(open: () => Promise<Database>): Promise<BriefingWorld> {
  const db = await open();
  const made = await world(async () => db);
  return {
    ...made,
    db,
    async startRun() {
      const { id } = await made.task();
      return (await made.store.runs({ task_id: id }, { limit: 1 })).rows[0]!.id;
    },
    read: async (runId) =>
      JSON.stringify(await made.store.briefing(await made.store.runRow(runId))),
    count: async (table) =>
      Number((await db.read((sql) => sql.one(`SELECT COUNT(*) AS n FROM ${table}`)))!.n),
  };
}

for (const [name, open] of Object.entries(DATABASES)) {
  describe(`briefings on ${name}`, () => {
    it('are read back byte for byte, and what they share is stored once', async () => {
      const { store, startRun, read, count } = await briefingWorld(open);
      const saved = new Map<string, BriefingMembers>();
      for (const over of [{}, {}, { inputs: [{ text: 'x'.repeat(1000) }] }, { tools: [] }]) {
        const runId = await startRun();
        saved.set(runId, makeBriefing(runId, over));
        await store.saveBriefing(runId, saved.get(runId)!);
      }
      for (const [runId, briefing] of saved)
        assert.equal(await read(runId), JSON.stringify(briefing));
      assert.equal(await count('briefing_parts'), 3, 'persona, tools, inputs');
      assert.equal(await count('run_briefing_parts'), 8);
      const rows = await Promise.all([...saved.keys()].map((id) => store.runRow(id)));
      for (const { briefing } of rows) assert.ok(briefing!.length < 800, briefing!);
      await store.close();
    });

    it('of an older version are whole, and are read as they are', async () => {
      const { store, startRun, read, count, db } = await briefingWorld(open);
      const runId = await startRun();
      assert.equal(await read(runId), undefined);
      const text = JSON.stringify(makeBriefing(runId));
      await db.write((sql) => sql.run('UPDATE runs SET briefing = ? WHERE id = ?', text, runId));
      assert.equal(await read(runId), text);
      await store.saveBriefing(runId, makeBriefing(runId, { persona: 'other'.repeat(100) }));
      assert.equal(await read(runId), text, 'the first one stays');
      assert.equal(await count('briefing_parts'), 0);
      await store.close();
    });

    it('are released with their run, and parts of others stay', async () => {
      const { store, startRun, read, count, db } = await briefingWorld(open);
      const [first, second] = [await startRun(), await startRun()];
      const inputs = [{ text: 'only the first has this '.repeat(50) }];
      await store.saveBriefing(first, makeBriefing(first, { inputs }));
      await store.saveBriefing(second, makeBriefing(second));
      assert.equal(await count('briefing_parts'), 3);
      await db.write((sql) => releaseBriefing(sql, first));
      assert.equal(await count('briefing_parts'), 2);
      assert.equal(await read(second), JSON.stringify(makeBriefing(second)));
      await db.write((sql) => releaseBriefing(sql, second));
      assert.equal(await count('briefing_parts'), 0);
      assert.equal(await count('run_briefing_parts'), 0);
      const third = await startRun();
      await store.saveBriefing(third, makeBriefing(third));
      assert.equal(await read(third), JSON.stringify(makeBriefing(third)));
      await store.close();
    });

    it('without one of their parts are refused, not shortened', async () => {
      const { store, startRun, read, db } = await briefingWorld(open);
      const runId = await startRun();
      await store.saveBriefing(runId, makeBriefing(runId));
      await db.write((sql) => sql.run('DELETE FROM briefing_parts WHERE body LIKE ?', '"You%'));
      await assert.rejects(read(runId), faultCode('storage_broken'));
      await store.close();
    });
  });
}
