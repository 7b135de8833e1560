// Mail in threads: an agent gets what is new and a digest of what came before, never quotes of
// quotes; a program that answers every mail is found and told; embedded and split.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { writePersonKey } from '../../src/daemons/approvald/testing/person-key.ts';
import { makePrivateDir } from '../../src/platform/state-dir.ts';
import type { TaskView } from '../../src/wire/agentd.ts';
import {
  eventually,
  freshDir,
  startRuntime,
  type TestRuntime,
  taskEnded,
} from '../support/runtime.ts';
import { finishes, type ScriptedModel, startScriptedModel } from '../support/scripted-model.ts';
import { scriptedModels, TEAM } from '../support/scripted-world.ts';
import { sendSmtp, writeMail } from '../support/smtp.ts';

/** A reply that quotes a reply. */
const QUOTES = [
  'On Tuesday, coder wrote:',
  '> Second granted.',
  '> On Monday, ann wrote:',
  '>> Second wish',
  '>>> First granted.',
  '',
];

for (const mode of ['embedded', 'split'] as const)
  describe(`mail in threads, ${mode}`, () => {
    let world: TestRuntime;
    let model: ScriptedModel;
    const base = freshDir();
    before(async () => {
      makePrivateDir(join(base, 'state'));
      writePersonKey(join(base, 'state'), 'ann');
      model = await startScriptedModel();
      const config = JSON.stringify({ modeld: scriptedModels(model.url) });
      world = await startRuntime({ base, mode, agents: TEAM, config });
    });
    after(async () => {
      await world.remove();
      await model.close();
      rmSync(base, { recursive: true, force: true });
    });

    let sent = 0;
    const send = async (fields: Record<string, string>, text: string) => {
      const mail = writeMail({ 'Message-ID': `<${sent++}@example.org>`, ...fields }, text);
      const path = join(world.runtimeDir, 'maild', 'smtp', 'smtp.sock');
      const auth = ['ann', 'ann'.repeat(32)] as const;
      assert.match(await sendSmtp({ path }, { auth, to: ['coder@localhost'], mail }), /^250/);
    };
    const tasksOf = async (goal: RegExp): Promise<TaskView[]> =>
      (await world.agentd.listTasks({ query: { limit: 500 } })).tasks
        .filter((task) => goal.test(task.goal))
        .toReversed();
    const mails = (): string[] => {
      const dir = join(world.stateDir, 'mail', 'ann', 'new');
      return readdirSync(dir).map((name) => readFileSync(join(dir, name), 'utf8'));
    };
    /** The n-th task about it, once it has ended and its result is in the mailbox. */
    const answeredTask = async (goal: RegExp, n: number) => {
      const task = await eventually(
        `task ${n} about ${goal}`,
        async () => (await tasksOf(goal))[n],
      );
      await taskEnded(world, task.id);
      const mail = await eventually(`the result of ${task.id}`, async () =>
        mails().find((file) => file.includes(`${task.id} is completed`)),
      );
      return { task, id: /^Message-ID: <(.*)>$/m.exec(mail)![1]! };
    };

    it('a reply is its new text, with the result it replies to and a digest of the rest', async () => {
      for (const n of ['First', 'Second', 'Third'])
        model.on(`${n} wish`, finishes(`${n} granted.`));
      await send({ Subject: 'First wish' }, 'A pond.\n');
      const first = await answeredTask(/^First wish/, 0);
      const quote = 'On Monday, coder wrote:\n> First granted.\n';
      await send({ Subject: 'Re: x', 'In-Reply-To': `<${first.id}>` }, `Second wish.\n\n${quote}`);
      const second = await answeredTask(/^Second wish\.$/, 0);
      await send(
        { Subject: 'Re: x', 'In-Reply-To': `<${second.id}>` },
        ['Third wish.', '', ...QUOTES].join('\n'),
      );
      const { task } = await answeredTask(/^Third wish\.$/, 0);
      assert.equal(task.context_id, first.task.context_id);
      const [input] = task.inputs;
      assert.match(input?.text ?? '', /^It is completed: Second granted\.$/m);
      assert.match(
        input?.text ?? '',
        /^Earlier in this thread:\n- person:ann asked coder: First wish → completed: First /m,
      );
      assert.doesNotMatch(`${task.goal}\n${input?.text}`, /^>|wrote:/m);
      const { thread } = await world.agentd.getThread({ params: { id: task.context_id } });
      assert.equal(thread.next_move.owner, 'person:ann', 'who has the result');
    });

    it('a program that answers every mail with the same is refused, and a person is not', async () => {
      model.on('I am away', finishes('Noted.'));
      model.on('Away mode', finishes('Noted.'));
      await send({ Subject: 'Away mode' }, 'Please note when I am away.\n');
      let last = await answeredTask(/^Away mode/, 0);
      for (let n = 0; n < 3; n++) {
        await send({ Subject: 'Re: Away mode', 'In-Reply-To': `<${last.id}>` }, 'I am away.\n');
        last = await answeredTask(/^I am away\.$/, n);
      }
      await send({ Subject: 'Re: Away mode', 'In-Reply-To': `<${last.id}>` }, 'I am away!\n');
      const refusal = await eventually('the refusal', async () =>
        mails().find((file) => /^Your mail was not given to agent coder/m.test(file)),
      );
      assert.match(refusal, /you wrote the same in this thread 3 times within ten minutes/);
      assert.match(refusal, /^Auto-Submitted: auto-/m);
      assert.equal((await tasksOf(/^I am away/)).length, 3);
      model.on('I am back', finishes('Welcome.'));
      await send({ Subject: 'Re: Away mode', 'In-Reply-To': `<${last.id}>` }, 'I am back.\n');
      await answeredTask(/^I am back\.$/, 0);
    });
  });
