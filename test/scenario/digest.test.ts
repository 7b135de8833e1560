// The digest: what waits for a person, what went wrong, what was done and what it cost, by rule, as
// each person may see it, and in their mailbox; embedded and split.
import assert from 'node:assert/strict';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { agentctl, documentOf } from '../../src/clients/agentctl/testing/run-agentctl.ts';
import { writePersonKey } from '../../src/daemons/approvald/testing/person-key.ts';
import type { DigestView } from '../../src/wire/agentd.ts';
import type { MailSummary, MailView } from '../../src/wire/maild.ts';
import {
  eventually,
  freshDir,
  startRuntime,
  type TestRuntime,
  taskEnded,
} from '../support/runtime.ts';
import {
  call,
  finishes,
  type ScriptedModel,
  says,
  startScriptedModel,
} from '../support/scripted-model.ts';
import { create, openWait, scriptedModels, TEAM } from '../support/scripted-world.ts';

const RULES = `
@why("effects are over")
forbid (principal, action == Action::"tool.call", resource == Tool::"test.count_effect");
@ask("echoes are asked about")
forbid (principal, action == Action::"tool.call", resource == Tool::"test.echo");
`;

for (const mode of ['embedded', 'split'] as const)
  describe(`the digest, ${mode}`, () => {
    let world: TestRuntime;
    let model: ScriptedModel;
    const base = freshDir();
    before(async () => {
      const policies = join(base, 'state', 'policies');
      mkdirSync(policies, { recursive: true, mode: 0o700 });
      writeFileSync(join(policies, 'tools.cedar'), RULES);
      writePersonKey(join(base, 'state'), 'ann');
      writePersonKey(join(base, 'state'), 'bob');
      writePersonKey(join(base, 'state'), 'rita', 'reader');
      model = await startScriptedModel();
      world = await startRuntime({
        base,
        mode,
        agents: TEAM,
        config: JSON.stringify({
          toold: { test_tools: true },
          modeld: scriptedModels(model.url),
        }),
      });
    });
    after(async () => {
      await world.remove();
      await model.close();
      rmSync(base, { recursive: true, force: true });
    });

    const run = (...words: string[]) => agentctl(words, { state: world.stateDir });
    const json = async <T>(...words: string[]): Promise<T> =>
      documentOf(await run(...words, '--json')) as T;
    const digestOf = async (...words: string[]) =>
      (await json<{ digest: DigestView }>('digest', ...words)).digest;

    it('an empty one says so, and a time to come is refused', async () => {
      const digest = await digestOf();
      const longMs = Date.parse(digest.until) - Date.parse(digest.since);
      assert.ok(Math.abs(longMs - 24 * 3_600_000) < 60_000, `${longMs} ms`);
      assert.deepEqual(
        [digest.completed.count, digest.failed.count, digest.cost.calls, digest.missing],
        [0, 0, 0, []],
      );
      assert.match(digest.text, /^WAITS FOR YOU: nothing$/m);
      const future = await run('digest', '--since', '2999-01-01');
      assert.notEqual(future.code, 0);
      assert.match(future.stderr, /in the future/);
    });

    it('[K29] has what was done, what it cost, what waits and what went wrong, and asks no model', async () => {
      model.on(
        'Count the herons',
        says(call('test.count_effect', { key: 'a' })),
        finishes('Seven.'),
      );
      model.on('Drain the pond', finishes('There is no drain.', { status: 'failed' }));
      model.on('Ask about storks', says(call('person.ask', { question: 'Which\npond?' })));
      model.on('Echo the herons', says(call('test.echo', { text: 'Heron' })));
      const done = await create(world, `Count the herons${' and the storks'.repeat(10)}`, {
        agent: 'coder',
      });
      const failed = await create(world, 'Drain the pond', { agent: 'researcher' });
      const asking = await create(world, 'Ask about storks', { agent: 'coder' });
      const echoing = await create(world, 'Echo the herons', { agent: 'coder' });
      const canceled = await create(world, 'Later', { agent: 'coder', after: [asking.id] });
      await world.agentd.cancelTask({ params: { id: canceled.id }, body: {} });
      await taskEnded(world, done.id);
      await taskEnded(world, failed.id);
      const question = await openWait(world, asking.id, 'question');
      await openWait(world, echoing.id, 'approval');
      const asked = model.scenes.length;

      const digest = await eventually('the denial in the digest', async () => {
        const now = await digestOf('--since', '1h');
        return now.incidents.length > 0 ? now : undefined;
      });
      assert.deepEqual(
        digest.completed.tasks.map(({ id, agent, status }) => [id, agent, status]),
        [[done.id, 'coder', 'completed']],
      );
      assert.deepEqual([digest.completed.count, digest.canceled], [1, 1]);
      assert.ok(digest.completed.tasks[0]!.cost_microusd! > 0);
      assert.deepEqual(
        digest.failed.tasks.map(({ id, reason }) => [id, reason]),
        [[failed.id, 'There is no drain.']],
      );
      assert.deepEqual(
        digest.waiting.questions.map(({ id, task_id, agent }) => [id, task_id, agent]),
        [[question.id, asking.id, 'coder']],
      );
      assert.deepEqual(
        digest.waiting.approvals.map(({ agent, task_id }) => [agent, task_id]),
        [['coder', echoing.id]],
      );
      const [denied] = digest.incidents;
      assert.deepEqual(
        [denied!.event, denied!.text, denied!.count],
        ['tool.call.denied', 'coder was denied test.count_effect', 1],
      );
      const explained = await run('policy', 'explain', String(denied!.last_seq));
      assert.match(explained.stdout, /effects are over/, 'the number names the event');
      const usage = await world.modeld.usage({ query: {} });
      assert.deepEqual(
        [digest.cost.calls, digest.cost.cost_microusd],
        [usage.total.calls, usage.total.cost_microusd],
      );
      assert.equal(digest.board.waiting, 2);
      assert.equal(model.scenes.length, asked, 'no model was asked');

      const shown = await run('digest');
      assert.equal(shown.code, 0, shown.stderr);
      const lines = shown.stdout.split('\n');
      assert.deepEqual(
        lines.filter((line) => line.length > 80),
        [],
      );
      assert.match(
        shown.stdout,
        new RegExp(`coder asks: Which pond\\?\\n {4}agentctl answer ${question.id}`),
      );
      assert.match(shown.stdout, /^DONE: 1 task, and 1 canceled$/m);
    });

    it('people see in it only what they may see; a reader may have one, too', async () => {
      const proposed = await run('memory', 'propose', 'person:ann', 'Likes herons.', '--as', 'ann');
      assert.equal(proposed.code, 0, proposed.stderr);
      const proposals = ({ waiting }: DigestView) =>
        waiting.approvals.filter(({ task_id }) => task_id === null);
      const own = await eventually('the proposal', async () => {
        const digest = await digestOf('--as', 'ann');
        return proposals(digest).length > 0 ? digest : undefined;
      });
      for (const name of ['bob', 'rita']) {
        const other = await digestOf('--as', name);
        assert.deepEqual(proposals(other), []);
        assert.equal(other.waiting.approvals.length, own.waiting.approvals.length - 1, 'control');
      }
    });

    it('mails it once to the person who orders it, as they may see it', async () => {
      const boxOf = async (name: string) =>
        (await json<{ mails: MailSummary[] }>('mail', name)).mails.filter(({ subject }) =>
          subject.startsWith('digest: '),
        );
      type Mailed = { digest: DigestView; mail: { to: string } };
      const mailed = await json<Mailed>('digest', '--mail', '--as', 'ann');
      assert.equal(mailed.mail.to, 'ann');
      const [mail] = await eventually('the digest of ann', async () => {
        const found = await boxOf('ann');
        return found.length > 0 ? found : undefined;
      });
      assert.match(mail!.subject, /^digest: 1 done, 1 failed, \d waits? for you$/);
      const { mail: letter } = await json<{ mail: MailView }>('mail', 'ann', 'read', `${mail!.n}`);
      assert.equal(
        letter.text.trimEnd().split('\n').slice(1).join('\n'),
        mailed.digest.text.split('\n').slice(1).join('\n'),
      );
      assert.deepEqual(await boxOf('operator'), [], 'it went to nobody else');
      const reader = await run('digest', '--mail', '--as', 'rita');
      assert.equal(reader.code, 0, reader.stderr);
      assert.match(reader.stdout, /^Mailed to rita: agentctl mail$/m);
      await eventually('the digest of rita', async () => (await boxOf('rita'))[0]);
      assert.equal((await boxOf('ann')).length, 1);
    });
  });
