// People get results, questions, messages and approval requests as mail, in a Maildir that agentctl
// and any mail program reads; embedded and split.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { agentctl, documentOf } from '../../src/clients/agentctl/testing/run-agentctl.ts';
import type { MailSummary, MailView } from '../../src/wire/maild.ts';
import { allEvents } from '../support/reconcile.ts';
import { eventually, startRuntime, type TestRuntime, taskEnded } from '../support/runtime.ts';
import {
  call,
  finishes,
  type ScriptedModel,
  says,
  startScriptedModel,
} from '../support/scripted-model.ts';
import { create, manifestOf, openWait, scriptedModels, TEAM } from '../support/scripted-world.ts';

type List = { box: string; mails: MailSummary[]; total: number; unread: number };

for (const mode of ['embedded', 'split'] as const)
  describe(`mail, ${mode}`, () => {
    let world: TestRuntime;
    let model: ScriptedModel;
    before(async () => {
      model = await startScriptedModel();
      world = await startRuntime({
        mode,
        agents: { ...TEAM, asker: manifestOf('asker') },
        config: JSON.stringify({ modeld: scriptedModels(model.url) }),
      });
    });
    after(async () => {
      await world.remove();
      await model.close();
    });

    const run = (...words: string[]) => agentctl([...words, '--json'], { state: world.stateDir });
    const json = async <T>(...words: string[]): Promise<T> => documentOf(await run(...words)) as T;
    const list = (box: string) => json<List>('mail', box);
    const read = async (box: string, n: number) =>
      (await json<{ mail: MailView }>('mail', box, 'read', String(n))).mail;
    const find = (box: string, subject: RegExp) =>
      eventually(`a mail about ${subject} for ${box}`, async () => {
        const found = (await list(box)).mails.findLast((mail) => subject.test(mail.subject));
        return found && read(box, found.n);
      });
    const maildir = (box: string, part: string) => join(world.stateDir, 'mail', box, part);

    it('[K70] the result of a task is a file in the Maildir of its creator, and the log has it', async () => {
      model.on('Count the herons', finishes('Seven herons: ｻｷﾞ.'));
      const task = await create(world, 'Count the herons\nin the pond');
      await taskEnded(world, task.id);
      const person = task.created_by.replace('person:', '');
      const mail = await find(person, /^completed: Count the herons$/);
      assert.match(mail.text, /^Seven herons: ｻｷﾞ\.\n/);
      assert.match(mail.text, new RegExp(`${task.id} is completed`));
      assert.equal(mail.task_id, task.id);
      assert.equal(mail.message_id, `<${task.id}.result@agentd.localhost>`);
      for (const part of ['', 'tmp', 'new', 'cur'])
        assert.equal(statSync(maildir(person, part)).mode & 0o777, 0o700);
      const files = [
        ...readdirSync(maildir(person, 'new')),
        ...readdirSync(maildir(person, 'cur')),
      ];
      const names = files.filter((name) => name.includes(task.id));
      assert.equal(names.length, 1);
      const event = await eventually('its event', async () =>
        (await allEvents(world)).find(({ id }) => id === `${task.id}.result.mailed`),
      );
      assert.deepEqual([event.event, event.data?.box], ['mail.delivered', person]);
      assert.doesNotMatch(JSON.stringify(event), /heron/i);
    });

    it('failures are mailed too, and a canceled task is not', async () => {
      model.on('Fail at herons', finishes('No pond.', { status: 'failed' }));
      const task = await create(world, 'Fail at herons');
      await taskEnded(world, task.id);
      const mail = await find('tester', /^failed: Fail at herons$/);
      assert.match(mail.text, /^No pond\./);
      const { mails } = await list('tester');
      assert.ok(!mails.some(({ subject }) => subject.startsWith('canceled')));
    });

    it('a question is mailed, and with its result it is one thread', async () => {
      model.on(
        'Ask about storks',
        says(call('person.ask', { question: 'Which pond?' })),
        finishes('Done at the pond.'),
      );
      const task = await create(world, 'Ask about storks', { agent: 'asker' });
      const wait = await openWait(world, task.id, 'question');
      const question = await find('tester', /^question: Which pond\?$/);
      assert.match(question.text, new RegExp(`agentctl answer ${wait.id}`));
      await run('answer', wait.id, 'The large one.');
      await taskEnded(world, task.id);
      const result = await find('tester', /^Re: question: Which pond\?$/);
      assert.match(result.text, /^Done at the pond\./);
      const raw = readFileOf('tester', `${task.id}.result`);
      assert.match(raw, new RegExp(`^In-Reply-To: <${wait.id}\\.question@`, 'm'));
      assert.match(raw, new RegExp(`^References: <${wait.id}\\.question@`, 'm'));
      assert.match(raw, /^Auto-Submitted: auto-generated$/m);
    });

    const readFileOf = (box: string, id: string): string => {
      for (const part of ['new', 'cur'])
        for (const name of readdirSync(maildir(box, part)))
          if (name.includes(id)) return readFileSync(join(maildir(box, part), name), 'utf8');
      throw new Error(`no file of ${id}`);
    };

    it('[K25] people write to each other, and read only their own mail with their own key', async () => {
      assert.equal((await run('person', 'add', 'ann')).code, 0);
      await run('send', 'ann', 'Lunch at twelve?\nAt the pond.');
      await run('send', 'operator', 'Gladly.', '--subject', 'Re: lunch', '--as', 'ann');
      const gladly = await find('operator', /^Re: lunch$/);
      assert.match(gladly.from, /\bann@/, 'the key says who writes');
      assert.equal(gladly.text.trim(), 'Gladly.');
      const mine = await json<List>('mail', '--as', 'ann');
      assert.deepEqual([mine.box, mine.total, mine.unread], ['ann', 1, 1]);
      const { mail } = await json<{ mail: MailView }>('mail', 'read', '1', '--as', 'ann');
      assert.equal(mail.subject, 'Lunch at twelve?');
      assert.equal((await json<List>('mail', '--as', 'ann')).unread, 0);
      const other = await run('mail', 'operator', '--as', 'ann');
      assert.match(other.stderr, /may not read the mail of operator/);
      assert.equal(other.code, 3);
      assert.equal((await list('ann')).total, 1, 'control: the operator key reads it');
      const nobody = await run('send', 'nobody-here', 'Hello?');
      assert.notEqual(nobody.code, 0);
      assert.match(nobody.stderr, /there is no agent or person called nobody-here/);
    });

    it('a mail that a program moved or removed is no trouble', async () => {
      await run('send', 'ann', 'One more.');
      const name = readdirSync(maildir('ann', 'new'))[0]!;
      renameSync(join(maildir('ann', 'new'), name), join(maildir('ann', 'cur'), `${name}:2,FS`));
      assert.equal((await list('ann')).mails.at(-1)?.is_read, true);
      rmSync(maildir('ann', ''), { recursive: true });
      assert.equal((await list('ann')).total, 0);
    });
  });
