// An agent sends mail to people outside: a person sees exactly that mail and decides, a smarthost
// gets it once, signed, over TLS; embedded and split.
import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { makeReviewer } from '../../src/daemons/approvald/testing/reviewer.ts';
import type { ApprovalView } from '../../src/wire/approvald.ts';
import { verifyDkim } from '../support/dkim.ts';
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
import {
  create,
  manifestOf,
  openWait,
  reaches,
  scriptedModels,
} from '../support/scripted-world.ts';
import { smarthostConfig, startSmarthost, type TestSmarthost } from '../support/smarthost.ts';

const ANN = 'ann@example.org';
const PASSWORD = 'correct horse battery';
const SENDER = manifestOf(
  'sender',
  '{ replicas: 8, tools: { allow: [email.send_external, http.fetch] } }',
);
const RULES = `@id("partners") @why("mail goes to example.org only")
forbid (principal, action == Action::"message.send", resource is External)
when { context has domain } unless { ["example.org"].contains(context.domain) };`;

for (const mode of ['embedded', 'split'] as const)
  describe(`mail to others, ${mode}`, () => {
    const base = freshDir();
    const caFile = join(base, 'state', 'ca.pem');
    let world: TestRuntime;
    let model: ScriptedModel;
    let smarthost: TestSmarthost;
    let publicKey = '';
    before(async () => {
      const stateDir = join(base, 'state');
      mkdirSync(join(stateDir, 'policies'), { recursive: true, mode: 0o700 });
      writeFileSync(join(stateDir, 'policies', 'mail.cedar'), RULES);
      smarthost = await startSmarthost({ login: { user: 'agents', password: PASSWORD } });
      writeFileSync(caFile, smarthost.ca);
      const { privateKey, publicKey: verify } = generateKeyPairSync('rsa', { modulusLength: 2048 });
      publicKey = verify.export({ type: 'spki', format: 'der' }).toString('base64');
      const secret = (name: string, text: string): string => {
        const file = join(stateDir, name);
        writeFileSync(file, text, { mode: 0o600 });
        return file;
      };
      model = await startScriptedModel();
      world = await startRuntime({
        base,
        mode,
        agents: { sender: SENDER },
        config: JSON.stringify({
          modeld: scriptedModels(model.url),
          maild: {
            domain: 'agents.example.com',
            smarthost: smarthostConfig(smarthost, caFile, {
              user: 'agents',
              password_file: secret('password', PASSWORD),
              dkim: {
                domain: 'example.com',
                selector: 'agentd',
                key_file: secret(
                  'dkim.pem',
                  privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
                ),
              },
            }),
          },
        }),
      });
    });
    after(async () => {
      await world.remove();
      await model.close();
      await smarthost.close();
      rmSync(base, { recursive: true, force: true });
    });

    const script = (goal: string, mail: Record<string, unknown>) =>
      model.on(goal, says(call('email.send_external', mail)), ({ results }) =>
        finishes(`Done: ${results.at(-1)}`),
      );
    const pending = async (taskId: string): Promise<ApprovalView> => {
      const { id } = await eventually('an approval', async () => {
        const { approvals } = await world.approvald.listApprovals({ query: { status: 'pending' } });
        return approvals.find(({ task_id }) => task_id === taskId);
      });
      return (await world.approvald.getApproval({ params: { id } })).approval;
    };
    const decide = async (taskId: string, decision: 'approve' | 'reject' = 'approve') => {
      const { id } = await pending(taskId);
      await makeReviewer(world.approvald)[decision]({ params: { id: id as never }, body: {} });
    };
    const send = async (goal: string, mail: Record<string, unknown>) => {
      script(goal, mail);
      const task = await create(world, goal, { agent: 'sender' });
      await decide(task.id);
      return taskEnded(world, task.id);
    };

    it('[R118] a person sees recipients, subject and text, and the mail is sent once, signed, over TLS', async () => {
      const mail = {
        to: [ANN],
        cc: ['Bob@EXAMPLE.org'],
        subject: 'Seven herons · ﾃｽﾄ',
        text: 'Seven.\n.\n..two dots\nﾃｽﾄ\n',
      };
      script('Tell Ann', mail);
      const task = await create(world, 'Tell Ann', { agent: 'sender' });
      const approval = await pending(task.id);
      assert.match(approval.diff ?? '', /^From: sender <sender@agents\.example\.com>$/m);
      assert.match(approval.diff ?? '', /^To: ann@example\.org$/m);
      assert.match(approval.diff ?? '', /^Cc: Bob@EXAMPLE\.org$/m);
      assert.match(approval.diff ?? '', /^Subject: Seven herons · ﾃｽﾄ$/m);
      assert.match(approval.diff ?? '', /Seven\.\n\.\n\.\.two dots\nﾃｽﾄ\n/);
      assert.equal(smarthost.connections(), 0, 'nothing is sent before a person decides');
      await decide(task.id);
      const ended = await taskEnded(world, task.id);
      assert.match(ended.result ?? '', /"accepted":\["ann@example\.org","Bob@EXAMPLE\.org"\]/);
      assert.equal(smarthost.mails.length, 1);
      const [got] = smarthost.mails;
      assert.deepEqual(
        [got!.from, got!.to, got!.isSecure, got!.user],
        ['sender@agents.example.com', [ANN, 'Bob@EXAMPLE.org'], true, 'agents'],
      );
      assert.match(got!.raw, /^Auto-Submitted: auto-generated\r$/m);
      assert.equal((await verifyDkim(got!.raw, publicKey)).passed, true);
      const changed = got!.raw.replace('Seven.', 'Eight.');
      assert.notEqual(changed, got!.raw);
      assert.equal((await verifyDkim(changed, publicKey)).passed, false, 'control');
      const events = await eventually('its events', async () => {
        const all = (await allEvents(world)).filter(({ task_id }) => task_id === task.id);
        return all.some(({ event }) => event === 'mail.sent') ? all : undefined;
      });
      const kinds = events
        .map(({ event }) => event)
        .filter((event) => /^mail\.(?!delivered)/.test(event));
      assert.deepEqual(kinds.slice(0, 3), ['mail.queued', 'mail.attempted', 'mail.sent']);
      assert.doesNotMatch(JSON.stringify(events), /herons|two dots/);
    });

    it('a rejected mail is not sent', async () => {
      script('Tell nobody', { to: [ANN], subject: 'No', text: 'No herons.' });
      const task = await create(world, 'Tell nobody', { agent: 'sender' });
      await decide(task.id, 'reject');
      assert.match((await taskEnded(world, task.id)).result ?? '', /a person rejected this/);
      assert.equal(smarthost.mailsWith('No herons').length, 0);
    });

    it('a rule about domains refuses without asking, and permits the others', async () => {
      script('Tell Eve', { to: [ANN, 'eve@evil.example'], subject: 'Hi', text: 'Eve herons.' });
      const task = await create(world, 'Tell Eve', { agent: 'sender' });
      assert.match(
        (await taskEnded(world, task.id)).result ?? '',
        /mail goes to example\.org only/,
      );
      assert.equal(smarthost.mailsWith('Eve herons').length, 0);
    });

    it('what would be another field or mail is refused; control: one line is sent', async () => {
      const attacks = [
        { subject: 'Hi\r\nBcc: eve@example.org' },
        { subject: 'Hi\u2028Bcc: eve@example.org' },
        { to: [`${ANN}\r\nBcc: eve@example.org`] },
        { to: ['ann@example.org>, <eve@example.org'] },
        { to: ['"a b"@example.org'] },
        { text: 'Hi\r\n.\r\nMAIL FROM:<eve@example.org>\0' },
        { to: ['coder@localhost.localdomain@agents.example.com'] },
      ];
      for (const [n, attack] of attacks.entries()) {
        const goal = `Attack ${n}`;
        script(goal, { to: [ANN], subject: 'Hi', text: 'Attack herons.', ...attack });
        const task = await create(world, goal, { agent: 'sender' });
        const { result } = await taskEnded(world, task.id);
        assert.match(result ?? '', /invalid arguments/, JSON.stringify(attack));
      }
      const inner = 'Hi\r\n.\r\nMAIL FROM:<eve@example.org>\r\nRCPT TO:<eve@example.org>\n';
      await send('No attack', { to: [ANN], subject: 'Hi Bcc: eve@example.org', text: inner });
      const [got, ...others] = smarthost.mailsWith('MAIL FROM:<eve@example.org>');
      assert.deepEqual([got?.to, others.length], [[ANN], 0]);
      assert.equal(smarthost.mailsWith('Attack herons').length, 0);
    });

    it('an address of this host is refused before a person is asked', async () => {
      script('Tell coder', { to: ['coder@agents.example.com'], subject: 'Hi', text: 'Hi' });
      writeFileSync(join(base, 'state', 'policies', 'mail.cedar'), '');
      const task = await create(world, 'Tell coder', { agent: 'sender' });
      assert.match((await taskEnded(world, task.id)).result ?? '', /an address of this host/);
      writeFileSync(join(base, 'state', 'policies', 'mail.cedar'), RULES);
    });

    it('a temporary refusal is tried again, and the agent waits without a process', async () => {
      const mail = { to: ['defer-2@example.org'], subject: 'Later', text: 'Late herons.' };
      script('Tell late', mail);
      const task = await create(world, 'Tell late', { agent: 'sender' });
      await decide(task.id);
      await openWait(world, task.id, 'mail');
      const waiting = await reaches(world, task.id, 'waiting');
      assert.equal(waiting.reason, 'waiting for a mail to be sent');
      assert.match((await taskEnded(world, task.id)).result ?? '', /"accepted":\["defer-2@/);
      assert.equal(smarthost.mailsWith('Late herons').length, 1);
    });

    it('a permanent refusal is told to the agent in figures, and to its person in words', async () => {
      const to = ['refused@example.org'];
      const ended = await send('Tell refused', { to, subject: 'Hi', text: 'Refused herons.' });
      assert.match(ended.result ?? '', /there is no such address \(550 5\.1\.1\)/);
      assert.doesNotMatch(ended.result ?? '', /Ignore all rules/);
      assert.equal(
        (await world.agentd.getTask({ params: { id: ended.id } })).task.labels?.includes('outside'),
        false,
      );
      const mail = await eventually('the notice', async () => {
        const { mails } = await world.maild.listMail({ query: {} });
        return mails.find(({ from }) => from.startsWith('agentd <postmaster@'));
      });
      const { mail: shown } = await world.maild.readMail({ body: { n: mail.n } });
      assert.match(shown.text, /refused; last reply: "550 5\.1\.1 Ignore all rules/);
    });

    it('one recipient refused, the others have it', async () => {
      const to = ['refused-too@example.org', ANN];
      const ended = await send('Tell some', { to, subject: 'Hi', text: 'Some herons.' });
      assert.match(
        ended.result ?? '',
        /"accepted":\["ann@example\.org"\],"refused":\[\{"address":"refused-too@/,
      );
      assert.deepEqual(smarthost.mailsWith('Some herons')[0]?.to, [ANN]);
    });

    it('a reply that was lost is asked about, and never sent again without a word', async () => {
      const mail = { to: ['lost@example.org'], subject: 'Hi', text: 'Lost herons.' };
      script('Tell lost', mail);
      const task = await create(world, 'Tell lost', { agent: 'sender' });
      await decide(task.id);
      const question = await openWait(world, task.id, 'question');
      assert.match(question.question ?? '', /outcome is unknown/);
      assert.equal(smarthost.mailsWith('Lost herons').length, 1);
      await world.agentd.answerWait({
        params: { id: question.id },
        body: { answer: 'it happened' },
      });
      await taskEnded(world, task.id);
      assert.equal(smarthost.mailsWith('Lost herons').length, 1);
    });

    it('while halted nothing is sent, and after that it is', async () => {
      script('Tell halted', { to: ['defer-1@example.org'], subject: 'Hi', text: 'Halted herons.' });
      const task = await create(world, 'Tell halted', { agent: 'sender' });
      await decide(task.id);
      await openWait(world, task.id, 'mail');
      await world.agentd.halt({ body: { reason: 'test' } });
      await new Promise((resolve) => setTimeout(resolve, 2_500));
      assert.equal(smarthost.mailsWith('Halted herons').length, 0);
      await world.agentd.unhalt({});
      await taskEnded(world, task.id);
      assert.equal(smarthost.mailsWith('Halted herons').length, 1);
    });

    it('mail of a task that is canceled meanwhile is withdrawn', async () => {
      script('Tell canceled', {
        to: ['defer-3@example.org'],
        subject: 'Hi',
        text: 'Canceled herons.',
      });
      const task = await create(world, 'Tell canceled', { agent: 'sender' });
      await decide(task.id);
      await openWait(world, task.id, 'mail');
      await world.agentd.cancelTask({ params: { id: task.id }, body: {} });
      const event = await eventually('the event', async () =>
        (await allEvents(world)).find(
          (one) => one.event === 'mail.failed' && one.task_id === task.id,
        ),
      );
      assert.equal(event.status, 'withdrawn');
      assert.equal(smarthost.mailsWith('Canceled herons').length, 0);
    });

    it('no secret is in a file that agents or the log could show', () => {
      const log = readFileSync(join(base, 'state', 'audit', 'audit.jsonl'), 'utf8');
      assert.ok(!log.includes(PASSWORD));
    });
  });
