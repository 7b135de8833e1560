// People remember, search and show memories with agentctl, embedded and split; nothing of it is
// lost by a restart, and all of it is in the log.
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { agentctl, documentOf } from '../../src/clients/agentctl/testing/run-agentctl.ts';
import type { MemoryView, RecalledMemory } from '../../src/wire/memoryd/records.ts';
import { allEvents } from '../support/reconcile.ts';
import { eventually, freshDir, startRuntime, type TestRuntime } from '../support/runtime.ts';

const coder = `apiVersion: agentd/v1
kind: Agent
metadata: { name: coder, description: Remembers. }
spec: { memory: { read: ["project:app"] } }
`;

for (const mode of ['embedded', 'split'] as const)
  describe(`memory, ${mode}`, () => {
    let runtime: TestRuntime;
    const base = freshDir();
    before(async () => {
      runtime = await startRuntime({ base, mode, agents: { coder } });
    });
    after(async () => {
      await runtime.remove();
      rmSync(base, { recursive: true, force: true });
    });
    const run = (...words: string[]) => agentctl(words, { state: runtime.stateDir });
    const ok = async (...words: string[]): Promise<string> => {
      const ran = await run(...words);
      assert.equal(ran.code, 0, ran.stderr);
      return ran.stdout;
    };
    const json = async <T>(...words: string[]): Promise<T> =>
      documentOf(await run(...words, '--json')) as T;
    const remember = (text: string, ...about: string[]) =>
      json<{ memory: MemoryView }>('memory', 'remember', 'project:app', text, ...about);
    const search = async (...words: string[]) =>
      (await json<{ memories: RecalledMemory[] }>('memory', 'search', 'coder', ...words)).memories;

    it('[R51] what was remembered is found, with where it came from', async () => {
      const text = 'The release branch is called harbour.';
      const about = ['--class', 'procedural', '--ref', 'README.md', '--mark', 'outside'];
      const { memory } = await remember(text, ...about);
      assert.deepEqual([memory.status, memory.labels], ['active', ['person', 'outside']]);
      const [found] = await search('Which branch do we release from?');
      assert.deepEqual([found?.id, found?.text, found?.ref], [memory.id, text, 'README.md']);
      const shown = await ok('memory', 'show', memory.id);
      assert.match(shown, /harbour/);
      assert.match(shown, /marks +outside/);
      const explained = await ok('memory', 'search', 'coder', 'release branch', '--explain');
      assert.match(explained, /words: /);
    });

    it('an agent’s search has only what that agent may read', async () => {
      await ok('memory', 'remember', 'agent:planner', 'The planner likes harbours.');
      assert.equal((await search('harbours')).length, 1);
      assert.equal((await search('harbours', '--scope', 'project')).length, 1);
      assert.deepEqual(await search('harbours', '--scope', 'agent:planner'), []);
      const { memories } = await runtime.memoryd.recall({ body: { query: 'harbours' } });
      assert.equal(memories.length, 2, 'control: the person may read both');
    });

    it('a memory that replaces another is the one that is found', async () => {
      const old = await remember('The lead is Ines.');
      const before = new Date().toISOString();
      const replaces = ['--replaces', old.memory.id];
      await ok('memory', 'remember', 'project:app', 'The lead is Omar.', ...replaces);
      const texts = async (...words: string[]) =>
        (await search('Who is the lead?', ...words)).map(({ text }) => text);
      assert.ok((await texts()).includes('The lead is Omar.'));
      assert.ok(!(await texts()).includes('The lead is Ines.'));
      assert.ok((await texts('--as-of', before)).includes('The lead is Ines.'));
    });

    it('[R30] an unknown memory, a wrong scope and a wrong class say what to do', async () => {
      assert.equal((await run('memory', 'show', `memory_${'0'.repeat(26)}`)).code, 5);
      assert.equal((await run('memory', 'remember', 'Project', 'x')).code, 2);
      assert.equal((await run('memory', 'remember', 'team', 'x', '--class', 'odd')).code, 2);
      assert.equal((await run('memory', 'remember', 'person:zoe', 'x')).code, 3);
    });

    it('everything is there after a kill, and without its database', async () => {
      const count = async () => (await search('harbour', '--limit', '100')).length;
      const known = await count();
      assert.ok(known > 0);
      await runtime.kill();
      runtime = await runtime.restart();
      assert.equal(await count(), known);
      await runtime.stop();
      for (const end of ['', '-wal', '-shm'])
        rmSync(join(runtime.stateDir, `memoryd.sqlite${end}`), { force: true });
      runtime = await runtime.restart();
      assert.equal(await count(), known);
      assert.match(await ok('memory', 'rebuild'), /^Applied \d+ operations of the journal\.$/m);
      assert.equal(await count(), known);
    });

    it('[R134] [R135] every write and every recall is in the log', async () => {
      const events = await eventually('the recalls in the log', async () => {
        const all = await allEvents(runtime);
        return all.some(({ event }) => event === 'memory.recalled') ? all : undefined;
      });
      const writes = events.filter(({ event }) => event === 'memory.remembered');
      assert.equal(new Set(writes.map(({ data }) => data?.memory_id)).size, writes.length);
      assert.equal(writes.length, 4);
      assert.doesNotMatch(JSON.stringify(events), /harbour/);
    });
  });
