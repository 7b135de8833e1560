// Mail in: a person mails a request, answers a question by reply and gets the result in the thread;
// who it is follows from the key, and mail from outside needs a rule.
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { writePersonKey } from '../../src/daemons/approvald/testing/person-key.ts';
import type { TaskView } from '../../src/wire/agentd.ts';
import { allEvents } from '../support/reconcile.ts';
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
import { openWait, scriptedModels, TEAM } from '../support/scripted-world.ts';
import { sendSmtp, type TestMail, writeMail } from '../support/smtp.ts';

const OUTSIDE_RULE = `
@id("support-mail")
permit (principal == External::"mail:smtp", action == Action::"task.delegate", resource == Agent::"researcher");
@id("mail-to-ann")
permit (principal == External::"mail:lmtp", action == Action::"message.send", resource == Person::"ann");
`;

for (const mode of ['embedded', 'split'] as const)
  describe(`mail in, ${mode}`, () => {
    let world: TestRuntime;
    let model: ScriptedModel;
    const ANN = ['ann', 'ann'.repeat(32)] as const;
    const base = freshDir();
    before(async () => {
      const policies = join(base, 'state', 'policies');
      mkdirSync(policies, { recursive: true, mode: 0o700 });
      writeFileSync(join(policies, 'mail.cedar'), OUTSIDE_RULE);
      writePersonKey(join(base, 'state'), 'ann');
      writePersonKey(join(base, 'state'), 'rita', 'reader');
      writePersonKey(join(base, 'state'), 'paul', 'approver');
      model = await startScriptedModel();
      world = await startRuntime({
        base,
        mode,
        agents: TEAM,
        config: JSON.stringify({ modeld: scriptedModels(model.url) }),
      });
    });
    after(async () => {
      await world.remove();
      await model.close();
      rmSync(base, { recursive: true, force: true });
    });

    const socket = () => ({ path: join(world.runtimeDir, 'maild', 'smtp', 'smtp.sock') });
    const send = ({ to, ...mail }: TestMail) =>
      sendSmtp(socket(), { ...mail, to: [to].flat().map((name) => `${name}@localhost`) });
    const tasksOf = async (goal: RegExp): Promise<TaskView[]> =>
      (await world.agentd.listTasks({ query: { limit: 500 } })).tasks.filter((task) =>
        goal.test(task.goal),
      );
    const taskOf = (goal: RegExp) =>
      eventually(`a task about ${goal}`, async () => (await tasksOf(goal))[0]);
    const filesOf = (box: string): string[] =>
      ['new', 'cur'].flatMap((part) => {
        const dir = join(world.stateDir, 'mail', box, part);
        try {
          return readdirSync(dir).map((name) => readFileSync(join(dir, name), 'utf8'));
        } catch {
          return [];
        }
      });
    const mailOf = (box: string, text: RegExp) =>
      eventually(`mail with ${text} for ${box}`, async () =>
        filesOf(box).find((file) => text.test(file)),
      );
    const idOf = (file: string) => /^Message-ID: <(.*)>$/m.exec(file)![1]!;

    it('a request becomes a task, a reply answers its question, and the result is in the thread', async () => {
      model.on(
        'Plan the pond',
        says(call('person.ask', { question: 'How deep?' })),
        ({ results }) => finishes(`It is ${results.join()}.`),
      );
      const mail = writeMail(
        { Subject: 'Plan the pond', 'Message-ID': '<pond@example.org>' },
        'For herons.\n',
      );
      assert.match(await send({ auth: ANN, to: 'coder', mail }), /^250/);
      const task = await taskOf(/^Plan the pond\n\nFor herons\.$/);
      assert.deepEqual(
        [task.created_by, task.assigned_to, task.labels],
        ['person:ann', 'coder', ['person']],
      );
      await openWait(world, task.id, 'question');
      const question = await mailOf('ann', /^How deep\?$/m);
      assert.match(question, /^In-Reply-To: <pond@example\.org>$/m);
      assert.match(question, /^Subject: Re: Plan the pond$/m);
      const reply = writeMail(
        { Subject: 'Re: Plan the pond', 'In-Reply-To': `<${idOf(question)}>` },
        'Two metres.\n\nOn Monday, coder wrote:\n> How deep?\n>\n-- \nAnn\n',
      );
      assert.match(await send({ auth: ANN, to: 'coder', mail: reply }), /^250/);
      const ended = await taskEnded(world, task.id);
      assert.match(String(ended.result), /Two metres\./);
      assert.doesNotMatch(String(ended.result), /How deep|wrote/);
      const result = await mailOf('ann', /^It is .*Two metres/m);
      assert.match(result, /^References: <pond@example\.org>/m);
    });

    it('a reply that is none of the choices is refused, and its sender is told why', async () => {
      const question = { question: 'Which bank?', choices: ['left', 'right'] };
      model.on('Choose a bank', says(call('person.ask', question)), finishes('Chosen.'));
      const request = writeMail({ Subject: 'Choose a bank' }, 'Of the pond.\n');
      await send({ auth: ANN, to: 'coder', mail: request });
      const task = await taskOf(/^Choose a bank/);
      const asked = idOf(await mailOf('ann', /^Which bank\?$/m));
      const reply = (text: string) =>
        send({
          auth: ANN,
          to: 'coder',
          mail: writeMail({ Subject: 'Re: Choose a bank', 'In-Reply-To': `<${asked}>` }, text),
        });
      assert.match(await reply('The upper one\n'), /^250/);
      await mailOf(
        'ann',
        /^Your mail was not given to agent coder:\r?\n\r?\n.*one of: left · right/m,
      );
      const events = await eventually('the refusal in the log', async () => {
        const all = await allEvents(world);
        return all.some(({ event }) => event === 'mail.refused') ? all : undefined;
      });
      assert.equal(events.find(({ event }) => event === 'mail.refused')!.status, 'failed');
      await reply('Left.\n');
      assert.equal((await taskEnded(world, task.id)).status, 'completed');
    });

    it('a reply to a result is a new task in the thread, with what came before', async () => {
      model.on('First part', finishes('Forty reeds.'));
      model.on('And the rest', finishes('Ten more.'));
      await send({ auth: ANN, to: 'coder', mail: writeMail({ Subject: 'First part' }, 'Go.\n') });
      const first = await taskOf(/^First part/);
      const result = await mailOf('ann', /^Forty reeds\.$/m);
      await send({
        auth: ANN,
        to: 'coder',
        mail: writeMail({ Subject: 'Re: x', References: `<${idOf(result)}>` }, 'And the rest?\n'),
      });
      const second = await taskOf(/^And the rest\?$/);
      assert.equal(second.context_id, first.context_id);
      assert.match(JSON.stringify(second.inputs), /Forty reeds/);
    });

    it('who sends is the key: without one it is outside, whatever From says', async () => {
      const forged = { From: 'Ann <ann@agentd.localhost>', Subject: 'Forged herons' };
      const mail = writeMail(forged, 'Do it.\n');
      const unknown = await send({ from: 'ann@agentd.localhost', to: 'coder', mail });
      assert.match(unknown, /^550 5\.7\.1 no rule permits mail from outside to coder/);
      const wrong = await send({ auth: ['ann', 'x'.repeat(96)], to: 'coder', mail });
      assert.match(wrong, /^535 5\.7\.8/);
      const other = await send({ auth: ['ann', world.operatorKey], to: 'coder', mail });
      assert.match(other, /^535 5\.7\.8 ann has a personal key, and this is not it/);
      const asAnn = writeMail({ ...forged, Subject: 'Own herons' }, 'Do it.\n');
      const paul = ['paul', 'paul'.repeat(32)] as const;
      assert.match(
        await send({ auth: paul, to: 'ann', mail: asAnn }),
        /^550 5\.7\.1 the field From says ann/,
      );
      assert.match(await send({ auth: ANN, to: 'ann', mail: asAnn }), /^250/, 'control');
      assert.deepEqual(await tasksOf(/Forged/), []);
    });

    it('mail from outside that a rule permits is outside text', async () => {
      model.on('Where is my parcel', finishes('At the pond.'));
      const mail = writeMail({ Subject: 'Where is my parcel?' }, 'Please say.\n');
      assert.match(await send({ to: 'researcher', mail }), /^250/);
      const task = await taskOf(/^Where is my parcel/);
      assert.deepEqual([task.created_by, task.labels], ['external:mail:smtp', ['outside']]);
      await taskEnded(world, task.id);
      const result = await mailOf('operator', /^At the pond\.$/m);
      assert.match(result, /^To: operator@agentd\.localhost$/m, 'nothing is sent outside');
      assert.match(await send({ to: 'coder', mail }), /^550 5\.7\.1/, 'control: another agent');
    });

    it('the same mail again is one task; to another recipient it is another', async () => {
      const mail = writeMail({ Subject: 'Count reeds once' }, 'Please.\n');
      for (let i = 0; i < 3; i++)
        assert.match(await send({ auth: ANN, to: 'coder', mail }), /^250/);
      await taskOf(/^Count reeds once/);
      assert.match(await send({ auth: ANN, to: ['coder', 'researcher'], mail }), /^250/);
      await eventually('the other task', async () =>
        (await tasksOf(/^Count reeds once/)).length === 2 ? true : undefined,
      );
      const agents = (await tasksOf(/^Count reeds once/)).map((task) => task.assigned_to).sort();
      assert.deepEqual(agents, ['coder', 'researcher']);
      const replayed = await send({ from: 'ann@example.org', to: 'planner', mail });
      assert.match(replayed, /^550/, 'under another envelope it is outside');
      const changed = mail.replace('Please.', 'Please!');
      assert.match(await send({ auth: ANN, to: 'coder', mail: changed }), /^250/);
      await eventually('a task for what differs', async () =>
        (await tasksOf(/^Count reeds once/)).length === 3 ? true : undefined,
      );
    });

    it('mail of programs and lists starts and answers nothing', async () => {
      const fields: Record<string, string>[] = [
        { 'Auto-Submitted': 'auto-replied' },
        { 'List-Id': '<herons.example.org>' },
        { Precedence: 'bulk' },
      ];
      for (const [i, more] of fields.entries()) {
        const mail = writeMail({ Subject: `Robot ${i}`, ...more }, 'Out of office.\n');
        assert.match(await send({ auth: ANN, to: 'coder', mail }), /^250/);
      }
      const bounce = writeMail({ Subject: 'Robot bounce' }, 'Undeliverable.\n');
      assert.match(await send({ auth: ANN, from: '', to: 'coder', mail: bounce }), /^250/);
      const human = writeMail({ Subject: 'Robot control', 'Auto-Submitted': 'no' }, 'Work.\n');
      assert.match(await send({ auth: ANN, to: 'coder', mail: human }), /^250/);
      await taskOf(/^Robot control/);
      assert.deepEqual(await tasksOf(/^Robot (\d|bounce)/), []);
    });

    it('attachments are artifacts with harmless names, and the task sees them', async () => {
      const part = (name: string, text: string) =>
        `--b\nContent-Type: text/plain\nContent-Disposition: attachment; filename="${name}"\nContent-Transfer-Encoding: base64\n\n${Buffer.from(text).toString('base64')}\n`;
      const mail = writeMail(
        {
          Subject: 'See files',
          'MIME-Version': '1.0',
          'Content-Type': 'multipart/mixed; boundary=b',
        },
        `--b\nContent-Type: text/html\n\n<p>Read <b>both</b></p><script>alert(1)</script>\n${part('../../etc/passwd', 'one')}${part('..\\\\.bashrc', 'two')}--b--\n`,
      );
      assert.match(await send({ auth: ANN, to: 'coder', mail }), /^250/);
      const task = await taskOf(/^See files\n\nRead both$/);
      const names: string[] = [];
      for (const { id = '' } of task.inputs) {
        const { artifact, text } = await world.agentd.getArtifact({
          params: { id: id as never },
          query: {},
        });
        assert.deepEqual(artifact.labels, ['person']);
        names.push(`${artifact.name}: ${text}`);
      }
      assert.deepEqual(names, ['passwd: one', 'bashrc: two']);
    });

    it('keys that may only read or decide start nothing', async () => {
      const mail = writeMail({ Subject: 'Try' }, 'It.\n');
      const rita = ['rita', 'rita'.repeat(32)] as const;
      const paul = ['paul', 'paul'.repeat(32)] as const;
      assert.match(await send({ auth: rita, to: 'coder', mail }), /^550 5\.7\.1 the key of rita/);
      assert.match(await send({ auth: paul, to: 'coder', mail }), /^550 5\.7\.1 the key of paul/);
      assert.match(await send({ auth: rita, to: 'ann', mail }), /^250/, 'control: to a person');
    });

    it('while halted mail is taken, and its task starts afterwards', async () => {
      model.on('After the halt', finishes('Awake.'));
      await world.agentd.halt({ body: {} });
      const mail = writeMail({ Subject: 'After the halt' }, 'Go on.\n');
      assert.match(await send({ auth: ANN, to: 'coder', mail }), /^250/);
      assert.deepEqual(await tasksOf(/^After the halt/), []);
      await world.agentd.unhalt({});
      assert.equal(
        (await taskEnded(world, (await taskOf(/^After the halt/)).id)).status,
        'completed',
      );
    });

    it('the log has each mail, and none of its text', async () => {
      const events = await eventually('the events', async () => {
        const all = (await allEvents(world)).filter(({ event }) => event.startsWith('mail.'));
        return all.some(({ event }) => event === 'mail.handed_over') ? all : undefined;
      });
      assert.ok(
        events.some(
          ({ event, principal }) => event === 'mail.received' && principal === 'person:ann',
        ),
      );
      assert.doesNotMatch(JSON.stringify(events), /pond|reeds|parcel/i);
    });
  });
