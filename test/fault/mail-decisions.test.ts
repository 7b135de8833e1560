// SIGKILL of maild and approvald at each step between a reply that was taken and its decision: the
// person decided once, hears of it once, and the call is made.
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { writePersonKey } from '../../src/daemons/approvald/testing/person-key.ts';
import { killRequested } from '../support/kills.ts';
import { allEvents } from '../support/reconcile.ts';
import { eventually, freshDir, startRuntime, type TestRuntime } from '../support/runtime.ts';
import {
  call,
  finishes,
  type ScriptedModel,
  says,
  startScriptedModel,
} from '../support/scripted-model.ts';
import { manifestOf, scriptedModels } from '../support/scripted-world.ts';
import { sendSmtp, writeMail } from '../support/smtp.ts';

const FAILPOINTS = [
  'maild.after-take',
  'maild.before-decision',
  'approvald.before-answer',
  'approvald.after-answer',
  'maild.after-decision',
];
const SPEC = '{ tools: { allow: [test.tools] }, approvals: { required: [test.echo] } }';

describe('killed between a reply and its decision', () => {
  const base = freshDir();
  const crashFile = join(base, 'state', 'crash-at');
  let runtime: TestRuntime;
  let model: ScriptedModel;
  before(async () => {
    writePersonKey(join(base, 'state'), 'ann');
    model = await startScriptedModel();
    runtime = await startRuntime({
      base,
      mode: 'split',
      faults: true,
      agents: { worker: manifestOf('worker', SPEC) },
      config: JSON.stringify({
        modeld: scriptedModels(model.url),
        toold: { test_tools: true },
        approvald: { approve_by_reply: ['ann'] },
      }),
    });
    setInterval(() => killRequested(runtime), 5).unref();
  });
  after(async () => {
    await runtime.remove();
    await model.close();
    rmSync(base, { recursive: true, force: true });
  });

  const send = (to: string, mail: string) =>
    eventually('the mail to be taken', async () => {
      const path = join(runtime.runtimeDir, 'maild', 'smtp', 'smtp.sock');
      const auth = ['ann', 'ann'.repeat(32)] as const;
      return (await sendSmtp({ path }, { auth, to, mail })).startsWith('250') ? true : undefined;
    });
  const mails = (): string[] =>
    ['new', 'cur'].flatMap((part) => {
      const dir = join(runtime.stateDir, 'mail', 'ann', part);
      return existsSync(dir)
        ? readdirSync(dir).map((name) => readFileSync(join(dir, name), 'utf8'))
        : [];
    });

  for (const failpoint of FAILPOINTS)
    it(`${failpoint}: decided once`, async () => {
      const word = `Heron-${failpoint}`;
      model.on(`See ${word}`, says(call('test.echo', { text: word })), finishes('Seen.'));
      await send('worker@localhost', writeMail({ Subject: `See ${word}` }, 'Please.\n'));
      const mail = await eventually('the request', async () =>
        mails().find((text) => text.includes(`"text": "${word}"`)),
      );
      const code = /approve (\S+)$/m.exec(mail)![1]!;
      const id = /agentctl approvals (approval_\w+)/.exec(mail)![1]!;
      const reply = writeMail(
        { Subject: 'Re', 'In-Reply-To': /^Message-ID: (.*)$/m.exec(mail)![1]! },
        `approve ${code}\n`,
      );
      writeFileSync(crashFile, failpoint);
      await send('approvals@localhost', reply);
      await eventually('the kill', async () => !existsSync(crashFile) || undefined);
      const told = () =>
        mails().filter((text) => text.includes('It was decided') && text.includes(id));
      await eventually('the mail back', async () => told().length > 0 || undefined);
      await eventually('the call', async () => {
        const { approval } = await runtime.approvald.getApproval({ params: { id: id as never } });
        return approval.asks[0]?.redeemed_at === null ? undefined : approval;
      });
      await send('approvals@localhost', reply);
      assert.equal(told().length, 1);
      const { approval } = await runtime.approvald.getApproval({ params: { id: id as never } });
      assert.deepEqual([approval.status, approval.answers.length], ['approved', 1]);
      const decided = await eventually('the event', async () => {
        const own = (await allEvents(runtime)).filter(({ data }) => data?.approval_id === id);
        const found = own.filter(({ event }) => event === 'approval.decided');
        return found.length > 0 ? found : undefined;
      });
      assert.equal(decided.length, 1);
    });
});
