// Memory as infrastructure, embedded and split: a memory is inspected, corrected, moved, made again
// and deleted, with each step in the log; and no agent writes it but through memoryd.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { globSync, readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, describe, it } from 'node:test';
import { agentctl, documentOf } from '../../src/clients/agentctl/testing/run-agentctl.ts';
import { socketPathFor } from '../../src/platform/daemon.ts';
import { deriveId } from '../../src/platform/ids.ts';
import { makeClient, socketLink } from '../../src/platform/link.ts';
import type { ArtifactView } from '../../src/wire/agentd.ts';
import { RUN_DAEMONS } from '../../src/wire/daemons.ts';
import type { NewEvent } from '../../src/wire/events.ts';
import type { MemoryVersion, MemoryView, NewMemory } from '../../src/wire/memoryd/records.ts';
import { memorydRoutes } from '../../src/wire/memoryd.ts';
import type { BoxId, CallId, RunId, TaskId } from '../../src/wire/primitives.ts';
import { type Collected, sandboxdRoutes } from '../../src/wire/sandboxd.ts';
import { allEvents } from '../support/reconcile.ts';
import { eventually, freshDir, startRuntime, type TestRuntime } from '../support/runtime.ts';
import {
  call,
  finishes,
  type ScriptedModel,
  says,
  startScriptedModel,
} from '../support/scripted-model.ts';
import { doTask, manifestOf, scriptedModels } from '../support/scripted-world.ts';

const MAY_WRITE =
  '{ tools: { allow: [memory.read, memory.write] }, memory: { write: ["project:app"] } }';

for (const mode of ['embedded', 'split'] as const)
  describe(`the life of a memory, ${mode}`, { timeout: 180_000 }, () => {
    const base = freshDir();
    let runtime: TestRuntime;
    let model: ScriptedModel;
    before(async () => {
      model = await startScriptedModel();
      const config = JSON.stringify({ modeld: scriptedModels(model.url) });
      const agents = { coder: manifestOf('coder', MAY_WRITE) };
      runtime = await startRuntime({ base, mode, config, agents });
    });
    after(async () => {
      await runtime.remove();
      await model.close();
      rmSync(base, { recursive: true, force: true });
    });

    const json = async <T>(...words: string[]): Promise<T> =>
      documentOf(await agentctl([...words, '--json'], { state: runtime.stateDir })) as T;
    const remember = async (memory: Partial<NewMemory> & { text: string }) => {
      const body: NewMemory = { class: 'semantic', scope: 'project:app', ...memory };
      return (await runtime.memoryd.remember({ body })).memory;
    };
    const query = (text: string, ...values: string[]) => {
      const db = new DatabaseSync(join(runtime.stateDir, 'memoryd.sqlite'), { readOnly: true });
      try {
        return db.prepare(text).all(...values);
      } finally {
        db.close();
      }
    };
    const journalPath = () => {
      const day = new Date().toISOString().slice(0, 10);
      return join(runtime.stateDir, 'memory', 'journals', `${day}.jsonl`);
    };
    const journal = () => readFileSync(journalPath(), 'utf8');
    const kindsOf = async (id: string): Promise<string[]> => {
      const events = await allEvents(runtime);
      return events.filter(({ data }) => data?.memory_id === id).map(({ event }) => event);
    };
    const inLog = (id: string, kind: string) =>
      eventually(`${kind} in the log`, async () => (await kindsOf(id)).includes(kind) || undefined);

    it('[R7] [R15] [R30] it is inspected, corrected, moved, made again and deleted; the log has each step', async () => {
      const { id } = await remember({ text: 'The pump stands in hall 3.', ref: 'tour.md' });
      const shown = (await json<{ memory: MemoryView }>('memory', 'show', id)).memory;
      assert.deepEqual(
        [shown.text, shown.ref, shown.by, shown.labels, shown.scope, shown.class],
        [
          'The pump stands in hall 3.',
          'tour.md',
          'person:tester',
          ['person'],
          'project:app',
          'semantic',
        ],
      );
      await json('memory', 'edit', id, 'The pump stands in hall 4.');
      const { versions } = await json<{ versions: MemoryVersion[] }>('memory', 'history', id);
      assert.deepEqual(
        versions.map(({ version, text }) => [version, text]),
        [
          [1, 'The pump stands in hall 3.'],
          [2, 'The pump stands in hall 4.'],
        ],
      );

      const file = join(base, `export-${mode}.jsonl`);
      await json('memory', 'export', '--out', file);
      const other = await startRuntime();
      try {
        await agentctl(['memory', 'import', file], { state: other.stateDir });
        const { memories } = await other.memoryd.recall({ body: { query: 'Where is the pump?' } });
        assert.deepEqual(
          memories.map(({ text, ref, scope }) => [text, ref, scope]),
          [['The pump stands in hall 4.', 'tour.md', 'project:app']],
          'another runtime has it, with where it came from',
        );
      } finally {
        await other.remove();
      }

      const before = await json<{ memory: MemoryView }>('memory', 'show', id);
      await json('memory', 'rebuild');
      assert.deepEqual(await json('memory', 'show', id), before, 'made again from the journal');

      await json('memory', 'forget', id, '--wait');
      const gone = (await json<{ memory: MemoryView }>('memory', 'show', id)).memory;
      assert.deepEqual([gone.status, gone.text], ['forgotten', null]);
      assert.ok(!journal().includes('hall 4'));
      await inLog(id, 'memory.forgotten');
      const kinds = await kindsOf(id);
      for (const kind of ['memory.remembered', 'memory.edited', 'memory.forgotten'])
        assert.ok(kinds.includes(kind), kind);
    });

    it('[R56] what happened is a line of the journal and a row of the database', async () => {
      const occurred_at = '2026-05-01T09:00:00.000Z';
      const text = 'The deploy failed on a full disk.';
      const { id } = await remember({ class: 'episodic', text, occurred_at });
      const line = journal()
        .split('\n')
        .find((one) => one.includes(id))!;
      const [change] = (JSON.parse(line) as { changes: { class: string; content: object }[] })
        .changes;
      assert.equal(change!.class, 'episodic');
      assert.deepEqual((change!.content as { text: string }).text, text);
      const [row] = query(
        'SELECT m.class, m.scope, v.about, v.recorded_ms FROM memories m JOIN versions v ON v.memory_id = m.id WHERE m.id = ?',
        id,
      );
      assert.deepEqual([row!.class, row!.scope], ['episodic', 'project:app']);
      assert.equal((JSON.parse(String(row!.about)) as NewMemory).occurred_at, occurred_at);
    });

    it('[R59] preferences of a team and a project are rows, and the log has their changes', async () => {
      for (const scope of ['team', 'project:app']) {
        const text = `Reviews are short in ${scope}.`;
        const { id } = await remember({ class: 'preference', scope, text });
        await json('memory', 'edit', id, `Reviews are long in ${scope}.`);
        const [row] = query('SELECT class, scope, version FROM memories WHERE id = ?', id);
        assert.deepEqual({ ...row }, { class: 'preference', scope, version: 2 });
        await inLog(id, 'memory.edited');
        assert.deepEqual(await kindsOf(id), ['memory.remembered', 'memory.edited']);
      }
    });

    it('[R15] [R30] [R55] [R413] what an agent writes is decided by policy, stored, and recorded', async () => {
      const use = async (scope: string) => {
        const goal = `Remember for ${scope}`;
        const text = `The heron service belongs to ${scope}.`;
        model.on(goal, says(call('memory.remember', { text, scope })), finishes('done'));
        const task = await doTask(runtime, goal, { agent: 'coder' });
        const { calls } = await runtime.toold.listCalls({ query: { task_id: task.id } });
        return { task, text, call: calls.find(({ tool }) => tool === 'memory.remember')! };
      };
      const kept = await use('project:app');
      const { id } = kept.call.result as { id: string };
      assert.ok(journal().includes(kept.text), 'stored');
      assert.equal(
        query(
          'SELECT 1 FROM memory_index_records r JOIN versions v ON v.number = r.number WHERE v.memory_id = ?',
          id,
        ).length,
        1,
        'indexed',
      );
      await inLog(id, 'memory.remembered');
      const event = (await allEvents(runtime)).find(({ data }) => data?.memory_id === id)!;
      assert.deepEqual([event.agent, event.call_id], ['coder', kept.call.call_id], 'recorded');

      const refused = await use('team');
      assert.equal(refused.call.status, 'failed');
      assert.ok(!journal().includes(refused.text));
      await eventually('the denial in the log', async () =>
        (await allEvents(runtime)).some(
          ({ event: kind, task_id, status }) =>
            kind === 'policy.denied' && task_id === refused.task.id && status === 'memory.write',
        )
          ? true
          : undefined,
      );
    });

    it('[R60] documents, logs, code and screenshots are a class of memory, as files named by content', async () => {
      const kinds = [
        ['report.md', 'text/markdown', Buffer.from('# What was found\n')],
        ['build.log', 'text/plain', Buffer.from('12:00 failed: disk full\n')],
        ['fix.ts', 'text/x-typescript', Buffer.from('export const a = 1;\n')],
        ['screen.png', 'image/png', Buffer.from('iVBORw0KGgo=', 'base64')],
      ] as const;
      for (const [name, mime_type, bytes] of kinds)
        await runtime.agentd.putArtifact({
          body: { name, mime_type, base64: bytes.toString('base64') },
        });
      const { artifacts } = await json<{ artifacts: ArtifactView[] }>(
        'memory',
        'list',
        '--class',
        'artifact',
      );
      for (const [name, mime_type, bytes] of kinds) {
        const found = artifacts.find((one) => one.name === name);
        assert.equal(found?.mime_type, mime_type);
        const hash = createHash('sha256').update(bytes).digest('hex');
        assert.equal(found.object_hash, hash);
        const [path] = globSync(`objects/sha256/**/${hash}`, { cwd: runtime.stateDir });
        assert.deepEqual(readFileSync(join(runtime.stateDir, path!)), bytes);
      }
    });

    it('[R61] why something was done is a class of memory: lines that are only ever appended', async () => {
      const logOf = () =>
        readFileSync(join(runtime.stateDir, 'audit', 'audit.jsonl')).toString('utf8');
      const before = logOf();
      const words = ['memory', 'list', '--class', 'audit', '--json'];
      const { stdout } = await agentctl(words, { state: runtime.stateDir });
      const events = stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as NewEvent);
      const denied = events.find(({ event }) => event === 'policy.denied');
      assert.ok(denied?.status === 'memory.write' && denied.data?.scope === 'team');
      await remember({ text: 'One more line.' });
      const longer = await eventually('the next line', async () =>
        logOf().length > before.length ? logOf() : undefined,
      );
      assert.ok(longer.startsWith(before), 'no earlier line has changed');
      for (const line of longer.trim().split('\n')) JSON.parse(line);
      const verified = await agentctl(['audit', 'verify'], { state: runtime.stateDir });
      assert.equal(verified.code, 0, verified.stderr);
    });

    it('[R15] [R413] [R86] nothing in a box reaches its files or its daemon, and no other user may open them', async () => {
      assert.ok(!(RUN_DAEMONS as readonly string[]).includes('memoryd'));
      for (const [name, { callers }] of Object.entries(memorydRoutes))
        assert.ok(
          !(callers as readonly string[]).includes('run'),
          `${name} takes no call of a run`,
        );
      for (const path of ['memory', 'memory/journals', 'memoryd.sqlite'])
        assert.equal(statSync(join(runtime.stateDir, path)).mode & 0o077, 0, path);

      const socketPath = socketPathFor(runtime.runtimeDir, 'sandboxd', 'peer-toold');
      const sandboxd = makeClient(sandboxdRoutes, socketLink({ socketPath }));
      const task = deriveId<TaskId>('task', mode, 'box');
      const id = deriveId<BoxId>('box', mode, 'box');
      const run = deriveId<RunId>('run', mode, 'box');
      await sandboxd.openBox({
        params: { id },
        body: {
          run_id: run,
          fence: 1,
          agent: 'coder',
          task_id: task,
          root_task_id: task,
          level: 'L2',
          rules: { read: [], write: ['/workspace'], deny: [] },
          network: { egress_socket: null },
        },
      });
      let n = 0;
      const exec = async (script: string): Promise<number | null> => {
        const call_id = deriveId<CallId>('call', mode, 'box', n++);
        const argv = ['/bin/sh', '-c', script];
        const body = { call_id, argv, limits: {}, collect: true };
        return ((await sandboxd.execBox({ params: { id }, body })) as Collected).exit_code;
      };
      const before = journal();
      assert.equal(await exec('echo x > /workspace/y && cat /workspace/y'), 0, 'control');
      for (const script of [
        `cat ${journalPath()}`,
        `echo x >> ${journalPath()}`,
        `mkdir -p ${join(runtime.stateDir, 'memory')}/journals && echo x >> ${journalPath()} && ls ${join(runtime.stateDir, 'operator.key')}`,
        `cat ${join(runtime.stateDir, 'memoryd.sqlite')}`,
        `ls ${join(runtime.runtimeDir, 'memoryd')}`,
      ])
        assert.notEqual(await exec(script), 0, script);
      assert.equal(journal(), before);
      await sandboxd.closeBox({ params: { id } });
    });
  });
